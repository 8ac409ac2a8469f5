#!/bin/sh
# What the programs called `moved` start: sleeps for so many seconds.
echo "child_date=$(date +%s)"
echo "child begin"
sleep "$1"
echo "child end"
