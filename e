a: failed (exit): the script ended with exit code 3; stdout ends with:
  out
  stderr ends with:
  bad
  the run will end as `agent_failed`
✗ agent_failed: a failed
  1 turn · 1 execution, 1 failed · 42 ms
