"""`ucxring bench overlap`: how much of its communication a DistributedDataParallel hides behind backward."""
