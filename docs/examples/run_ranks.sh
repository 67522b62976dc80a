#!/bin/sh
# run_ranks.sh PROGRAM WORLD_SIZE: starts PROGRAM FOLDER RANK WORLD_SIZE for each rank, with a new folder that is removed
# afterwards. Fails when a rank fails.
set -eu
program=$1
world_size=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

processes=
rank=0
while [ "$rank" -lt "$world_size" ]; do
  "$program" "$folder" "$rank" "$world_size" &
  processes="$processes $!"
  rank=$((rank + 1))
done

result=0
for process in $processes; do
  wait "$process" || result=$?
done
exit "$result"
