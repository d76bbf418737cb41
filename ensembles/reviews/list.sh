# Lists the reviews beside this file, as JSON.
cd "$(dirname "$0")" || exit 1
separator=""
printf '{"paths": ['
for file in *.txt; do
    printf '%s"%s"' "$separator" "$file"
    separator=", "
done
printf ']}\n'
