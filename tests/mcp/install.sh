#!/bin/sh
# Puts the published MCP servers of package.json into target/mcp, where tests/mcp.rs finds them. It needs node and npm,
# and the network the first time; without them those tests say that they were skipped.
set -eu
cd "$(dirname "$0")"
folder="../../target/mcp"
if cmp -s package.json "$folder/package.json" && [ -f "$folder/installed" ]; then
    exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
cp package.json "$folder/"
cd "$folder"
npm install --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error
touch installed
