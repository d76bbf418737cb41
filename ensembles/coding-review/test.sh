# Prints one JSON object: did the tests pass, and what did they see?
script=coding-review-work/greet.sh
named=$(sh "$script" Ada 2>&1)
alone=$(sh "$script" 2>&1)
if [ "$named" = "Hello, Ada!" ] && [ "$alone" = "Hello, world!" ]; then
    printf '{"passed": true, "report": "all tests pass"}\n'
else
    printf '{"passed": false, "report": "expected a greeting with a comma, and one of the world without a name"}\n'
fi
