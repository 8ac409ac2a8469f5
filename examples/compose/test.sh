#!/bin/sh
# A month passes for a compose file. COMPOSE_FILE names it and the file that puts it on the timeline.
#
#   test.sh COMPOSE     the command: docker compose, or docker-compose
set -eu
compose=$1

"$EIGENTIME" ctl create shop --joinable --date 2038-01-19
trap '$compose down --timeout 0; "$EIGENTIME" ctl rm --force shop' EXIT
$compose up --detach

shop=http://$($compose port shop 8080)
token=$(curl --fail --silent --retry 60 --retry-all-errors --retry-delay 1 "$shop/login")
curl --fail --silent "$shop/account?token=$token"
test -z "$(curl --fail --silent "$shop/jobs")"

"$EIGENTIME" ctl leap shop 30d
"$EIGENTIME" ctl wait shop --idle

test "$(curl --silent "$shop/account?token=$token")" = "the token has expired"
test "$(curl --fail --silent "$shop/jobs")" = 2038-02-18
