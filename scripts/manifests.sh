#!/usr/bin/env bash
# Writes the plain manifests rendered from the chart, for those who do not use helm.
#
#   scripts/manifests.sh [FOLDER]     deploy/kubernetes/manifests by default
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/build/kubernetes:$PATH

to=${1-deploy/kubernetes/manifests}
# As built here, helm does not know which Kubernetes it is for.
render() { helm template eigentime deploy/kubernetes/chart --namespace eigentime --kube-version 1.36 "$@"; }

mkdir -p "$to"
{
    echo "# Made from the chart by 'make manifests'."
    cat deploy/kubernetes/namespace.yaml
    render --no-hooks
} >"$to/install.yaml"
{
    echo "# Made from the chart by 'make manifests'. Apply it, wait for the Job, then delete install.yaml."
    render --show-only templates/uninstall.yaml
} >"$to/uninstall.yaml"
