"""Programs that use ucxring the way a user would."""
