#!/bin/sh
# Installs the model server that tests/mock_providers.rs talks to into target/mock. Needs Node 20.15 and npm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
into="$here/../../target/mock"
mkdir -p "$into"
if cmp -s "$here/package.json" "$into/package.json" && [ -d "$into/node_modules/@copilotkit/aimock" ]; then
    exit 0
fi
cp "$here/package.json" "$into/package.json.new"
rm -rf "$into/node_modules" "$into/package.json"
cp "$into/package.json.new" "$into/package.json"
cd "$into"
npm install --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error || {
    rm -f package.json
    exit 1
}
rm -f package.json.new
