#!/usr/bin/env bash
# Builds helm, at the version pinned here, into build/kubernetes. Its go.mod states the version of Go
# that it needs. If this machine's is older or missing, nothing is built, and the tests that need
# helm are skipped and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly HELM=3.21.4 GO=1.26

if ! command -v go >/dev/null; then
    echo "helm: not built: needs go" >&2
    exit
fi
have=$(go env GOVERSION)
if [ "$(printf '%s\n' "$GO" "${have#go}" | sort --version-sort | head -n 1)" != "$GO" ]; then
    echo "helm: not built: needs Go $GO or later, and this is $have" >&2
    exit
fi
echo "helm: building helm $HELM into build/kubernetes" >&2
GOTOOLCHAIN=local GOBIN=$PWD/build/kubernetes go install -ldflags "-s -w" "helm.sh/helm/v3/cmd/helm@v$HELM"
