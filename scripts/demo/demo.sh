#!/bin/sh
# Prints its wall clock, sleeps ten seconds, prints it again.
date -u +%Y-%m-%dT%H:%M:%S.%3NZ
sleep 10
date -u +%Y-%m-%dT%H:%M:%S.%3NZ
