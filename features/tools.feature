Feature: Tools
  A model calls tools before it answers: scripts, other agents, other ensembles.

  Background:
    Given the Rhai script "double.rhai":
      """
      if parameters.n > 100 { throw "too much"; }
      parameters.n * 2
      """
    And the Rhai script "sim.rhai":
      """
      let calls = [];
      for message in messages {
        if message.get("tool_calls", ()) != () { calls += message.tool_calls; }
      }
      if calls.len() == 0 {
        #{ text: "Let me see.", tool_calls: [
          #{ name: "double", arguments: #{ n: 2 } },
          #{ name: "shout", arguments: #{ word: "hey" } },
        ] }
      } else if calls.len() == 2 {
        #{ tool_calls: [#{ name: "double", arguments: #{ n: calls[0].result } }] }
      } else {
        `${calls[1].result} ${calls[2].result}`
      }
      """
    And the file "shout.sh":
      """
      cat > /dev/null
      echo "said on stderr" >&2
      echo HEY
      """

  Scenario: Text and calls in one reply, several calls side by side, and results that the model reads
    Given the ensemble "a.yaml":
      """
      name: tools
      default_task: go
      agents:
        - {name: a, model_profile: m, tools: [double, shout]}
      tools:
        double: {script: double.rhai, parameters: {type: object, properties: {n: {type: integer}}, required: [n]}}
        shout: {script: shout.sh, parameters: {type: object}}
      model_profiles:
        m: {provider: simulated, script: sim.rhai}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" gave "response" = "HEY 8"
    And execution 1 of "a" called these tools:
      | iteration | name   | arguments       | end    | what  |
      | 1         | double | {"n": 2}        | result | 4     |
      | 1         | shout  | {"word": "hey"} | result | "HEY" |
      | 2         | double | {"n": 4}        | result | 8     |
    And execution 1 of "a" has "usage.requests" = 3

  Scenario: A script tool finds the arguments as parameters, and the rest as an agent's script does
    Given the file "show.py":
      """
      import json, sys
      given = json.load(sys.stdin)
      print(json.dumps({key: given[key] for key in ["input", "parameters", "agent_name", "context", "request"]}))
      """
    And the ensemble "a.yaml":
      """
      name: tools
      default_task: the task
      agents:
        - {name: a, model_profile: m, tools: [show], config: {own: 1}}
      tools:
        show: {script: show.py, parameters: {type: object}}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: show, arguments: {x: [1, "é"]}}]}, done]}
      """
    When I run `ensemble run a.yaml --output json --set k=2`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" called these tools:
      | iteration | name | arguments         | end    | what                                                                                                                |
      | 1         | show | {"x": [1, "é"]}   | result | {"input": "the task", "parameters": {"x": [1, "é"]}, "agent_name": "a", "context": {"k": 2}, "request": null} |

  Scenario: What goes wrong is told to the model, which may go on
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [double, fails, slow]}
      tools:
        double: {script: double.rhai, parameters: {type: object, properties: {n: {type: integer}}, required: [n]}}
        fails: {script: "echo why >&2; exit 3", parameters: {type: object}}
        slow: {script: "sleep 300", parameters: {type: object}, timeout_seconds: 0.5}
      model_profiles:
        m:
          provider: simulated
          replies:
            - tool_calls:
                - {name: treble, arguments: {n: 1}}
                - {name: double, arguments: {n: one}}
                - {name: double}
                - {name: double, arguments: {n: 101}}
                - {name: fails}
                - {name: slow}
            - sorry
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" gave "response" = "sorry"
    And execution 1 of "a" called these tools:
      | iteration | name   | arguments    | end   | what                                              |
      | 1         | treble | {"n": 1}     | error | there is no tool `treble`; there are: double      |
      | 1         | double | {"n": "one"} | error | the arguments of `double` are wrong               |
      | 1         | double | {}           | error | "n" is a required property                        |
      | 1         | double | {"n": 101}   | error | too much                                          |
      | 1         | fails  | {}           | error | exit code 3; stderr ends with:                    |
      | 1         | slow   | {}           | error | the tool timed out after 0.5 s                     |
    And it took less than 60 seconds

  Scenario: A long result is cut, and the model is told so
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [long]}
      tools:
        long: {script: "printf aéé", parameters: {type: object}, max_result_bytes: 4}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: long}]}, done]}
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 1 of "a" called these tools:
      | iteration | name | arguments | end    | what                                                                   |
      | 1         | long | {}        | result | "a\\n[2 of 5 bytes are left out here]\\né"                           |

  Scenario: A large result is summarized before the model receives it
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [long]}
      tools:
        long: {script: "seq 1 99", parameters: {type: object}, summarize_above: 20, summarize_with: brief}
      model_profiles:
        m: {provider: simulated, script: heard.rhai}
        brief: {provider: simulated, replies: [all numbers up to 99]}
      """
    And the file "heard.rhai":
      """
      let calls = messages[messages.len() - 1].get("tool_calls", []);
      if calls.is_empty() { #{ tool_calls: [#{ name: "long" }] } } else { calls[0].result.split("\n")[1] }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" gave "response" = "all numbers up to 99"

  Scenario: An exclusive tool runs alone, and the other calls keep their order around it
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [look, write]}
      tools:
        look: {script: "sh log.sh look", parameters: {type: object}}
        write: {script: "sh log.sh write", parameters: {type: object}, exclusive: true}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: look}, {name: write}, {name: write}, {name: look}]}, done]}
      """
    And the file "log.sh":
      """
      echo "$1 begins" >> log.txt; sleep 0.2; echo "$1 ends" >> log.txt
      """
    When I run `ensemble run a.yaml`
    Then the file "log.txt" holds:
      """
      look begins
      look ends
      write begins
      write ends
      write begins
      write ends
      look begins
      look ends
      """

  Scenario: The calls of a reply run side by side, and one after the other if the agent says so
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [meet]}
      tools:
        meet: {script: "sh meet.sh together.txt", parameters: {type: object}}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: meet}, {name: meet}]}, done]}
      """
    And the file "meet.sh":
      """
      echo begins >> $1
      tries=0
      until [ "$(grep -c begins $1)" = 2 ] || [ $tries = 20 ]; do tries=$((tries + 1)); sleep 0.05; done
      echo ends >> $1
      """
    When I run `ensemble run a.yaml`
    Then the file "together.txt" holds:
      """
      begins
      begins
      ends
      ends
      """
    Given the ensemble "b.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [meet], max_parallel_tools: 1}
      tools:
        meet: {script: "sh meet.sh alone.txt", parameters: {type: object}}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: meet}, {name: meet}]}, done]}
      """
    When I run `ensemble run b.yaml`
    Then the file "alone.txt" holds:
      """
      begins
      ends
      begins
      ends
      """

  Scenario: A result that does not match the tool's schema is an error for the model
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [right, wrong, words]}
        - {name: teller, model_profile: teller}
      tools:
        right: {script: "echo '{\"count\": 3}'", parameters: {type: object}, output_schema: &counted {type: object, required: [count]}}
        wrong: {script: "echo '{\"number\": 3}'", parameters: {type: object}, output_schema: *counted}
        words: {agent: teller, parameters: {type: object}, output_schema: *counted}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: right}, {name: wrong}, {name: words}]}, done]}
        teller: {provider: simulated, replies: ['{"count": 4}']}
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 1 of "a" called these tools:
      | iteration | name  | arguments | end    | what                                                                                |
      | 1         | right | {}        | result | {"count": 3}                                                                        |
      | 1         | wrong | {}        | error  | its result does not match its `output_schema`: "count" is a required property       |
      | 1         | words | {}        | result | {"count": 4}                                                                        |

  Scenario: A model that never stops calling tools fails
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [count], max_iterations: 3}
      tools:
        count: {script: "echo x >> calls.txt", parameters: {type: object}}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: count}]}]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "a" failed (max_iterations) saying "still calls tools after 3 requests"
    And the file "calls.txt" holds:
      """
      x
      x
      x
      """

  Scenario: An agent as a tool works on the arguments, is paid for by its caller, and has no turn of its own
    Given the ensemble "a.yaml":
      """
      name: tools
      default_task: the run's own task
      agents:
        - {name: boss, model_profile: boss, tools: [ask_helper, ask_plain]}
        - {name: helper, model_profile: helper, prompt: "{{ input }} {{ parameters.style }} {{ request.from }}", config: {style: brief}}
        - {name: plain, script: plain.rhai}
      tools:
        ask_helper: {description: Helps., agent: helper}
        ask_plain: {agent: plain, parameters: {type: object, properties: {style: {type: string}}}}
      model_profiles:
        boss:
          provider: simulated
          replies:
            - tool_calls:
                - {name: ask_helper, arguments: {input: count the sheep}}
                - {name: ask_helper, arguments: {sheep: 1}}
                - {name: ask_plain, arguments: {style: long}}
            - done
        helper: {provider: simulated, script: helper.rhai}
      """
    And the Rhai script "helper.rhai":
      """
      prompt
      """
    And the Rhai script "plain.rhai":
      """
      #{ input: input, parameters: parameters, from: request.from, me: agent_name }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent  | count |
      | boss   | 1     |
      | helper | 0     |
      | plain  | 0     |
    And "helper" never ran: it is a tool and does not run by itself
    And execution 1 of "boss" called these tools:
      | iteration | name       | arguments                    | end    | what                                                                                                          |
      | 1         | ask_helper | {"input": "count the sheep"} | result | "count the sheep brief boss"                                                                                  |
      | 1         | ask_helper | {"sheep": 1}                 | error  | are wrong                                                                                                     |
      | 1         | ask_plain  | {"style": "long"}            | result | {"input": "the run's own task", "parameters": {"style": "long"}, "from": "boss", "me": "plain"}               |
    And execution 1 of "boss" has "usage.requests" = 3
    And execution 1 of "boss" has "usage.by_tools" = 1

  Scenario: An agent that others listen to runs by itself and is a tool too
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: helper, script: helper.rhai}
        - {name: boss, model_profile: boss, tools: [ask], depends_on: [helper]}
      tools:
        ask: {agent: helper}
      model_profiles:
        boss: {provider: simulated, replies: [{tool_calls: [{name: ask, arguments: {input: hi}}]}, done]}
      """
    And the Rhai script "helper.rhai":
      """
      "heard " + input
      """
    When I run `ensemble run a.yaml --output json --input in`
    Then the agents ran in this order:
      | turn | agents |
      | 1    | helper |
      | 2    | boss   |
    And execution 1 of "helper" gave "response" = "heard in"
    And execution 1 of "boss" called these tools:
      | iteration | name | arguments       | end    | what       |
      | 1         | ask  | {"input": "hi"} | result | "heard hi" |

  Scenario: A person as a tool
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: boss, model_profile: boss, tools: [ask_person]}
        - {name: person, input: "{{ parameters.question }}"}
      tools:
        ask_person:
          agent: person
          parameters: {type: object, properties: {question: {type: string}}, required: [question]}
      model_profiles:
        boss: {provider: simulated, replies: [{tool_calls: [{name: ask_person, arguments: {question: "Well?"}}]}, done]}
      """
    When I run `ensemble run a.yaml --output json --answer person=fine`
    Then execution 1 of "boss" called these tools:
      | iteration | name       | arguments             | end    | what   |
      | 1         | ask_person | {"question": "Well?"} | result | "fine" |
    When I run `ensemble run a.yaml --output json`
    Then it ends as "waiting_for_input" with exit code 3
    When I run `ensemble resume --last --output json --answer person=late`
    Then it ends as "completed" with exit code 0
    And execution 1 of "boss" called these tools:
      | iteration | name       | arguments             | end    | what   |
      | 1         | ask_person | {"question": "Well?"} | result | "late" |

  Scenario: An ensemble as a tool is a whole conversation
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: boss, model_profile: boss, tools: [team]}
      tools:
        team: {ensemble: team.yaml, parameters: {type: object}}
      model_profiles:
        boss:
          provider: simulated
          replies:
            - tool_calls: [{name: team, arguments: {input: a, n: 1}}, {name: team, arguments: {input: b, n: 2}}]
            - done
      """
    And the ensemble "team.yaml":
      """
      name: team
      agents:
        - {name: first, script: first.rhai}
        - {name: second, script: second.rhai, depends_on: [first]}
      """
    And the Rhai script "first.rhai":
      """
      #{ heard: input, twice: context.n * 2 }
      """
    And the Rhai script "second.rhai":
      """
      #{ sum: context.twice + 1 }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "boss" called these tools:
      | iteration | name | arguments              | end    | what                                                                                                                              |
      | 1         | team | {"input": "a", "n": 1} | result | {"input": "a", "n": 1, "heard": "a", "twice": 2, "first": {"heard": "a", "twice": 2}, "sum": 3, "second": {"sum": 3}} |
      | 1         | team | {"input": "b", "n": 2} | result | {"input": "b", "n": 2, "heard": "b", "twice": 4, "first": {"heard": "b", "twice": 4}, "sum": 5, "second": {"sum": 5}} |

  Scenario: Where nobody can be asked, `ask` waits, and `resume` goes on with the decision
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [look, write, secret]}
      tools:
        look: {script: "echo x >> looked; echo seen", parameters: {type: object}}
        write: {script: "echo x >> written", parameters: {type: object}, permission: ask}
        secret: {script: "touch secret", parameters: {type: object}, permission: deny}
      model_profiles:
        m:
          provider: simulated
          replies:
            - tool_calls: [{name: look}, {name: write, arguments: {path: /tmp/a}}, {name: secret}]
            - {tool_calls: [{name: write}]}
            - done
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "waiting_for_input" with exit code 3
    And there is no file "written"
    And the file "looked" holds:
      """
      x
      """
    When I run `ensemble resume --last`
    Then the exit code is 3
    And stderr says "may the tool `write` be called with {"path":"/tmp/a"}?"
    And stderr says "--allow-tool 'a/write#1' (or --deny-tool)"
    When I run `ensemble resume --last --output json --allow-tool write`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" called these tools:
      | iteration | name   | arguments          | end    | what                                              |
      | 1         | look   | {}                 | result | "seen"                                            |
      | 1         | write  | {"path": "/tmp/a"} | result | ""                                                |
      | 1         | secret | {}                 | error  | there is no tool `secret`; there are: look, write |
      | 2         | write  | {}                 | result | ""                                                |
    And the file "written" holds:
      """
      x
      x
      """
    And the file "looked" holds:
      """
      x
      """
    And there is no file "secret"
    When I run `ensemble runs show --last`
    Then stdout says "the tool `write` was permitted for the rest of the run by an option"
    When I run `ensemble run a.yaml --output json`
    And I run `ensemble resume --last --output json --deny-tool write --allow-tool '*'`
    Then it ends as "completed" with exit code 0
    And execution 1 of "a" called these tools:
      | iteration | name   | arguments          | end    | what                               |
      | 1         | look   | {}                 | result | "seen"                             |
      | 1         | write  | {"path": "/tmp/a"} | error  | denied: it is denied for this run  |
      | 1         | secret | {}                 | error  | there is no tool `secret`          |
      | 2         | write  | {}                 | error  | denied: it is denied for this run  |
    When I run `ensemble run a.yaml --allow-tool wirte`
    Then the exit code is 2
    And stderr says "did you mean `write`?"
    When I run `ensemble run a.yaml --deny-tool wirte`
    Then the exit code is 2
    And stderr says "--deny-tool wirte: there is no such tool"

  Scenario: A tool call inside an agent or an ensemble that is a tool waits too
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: boss, model_profile: boss, tools: [ask, team]}
        - {name: helper, model_profile: helper, tools: [write]}
      tools:
        ask: {agent: helper}
        team: {ensemble: team.yaml}
        write: {script: "echo helper >> written", parameters: {type: object}, permission: ask, exclusive: true}
      model_profiles:
        boss: {provider: simulated, replies: [{tool_calls: [{name: ask, arguments: {input: a}}]}, {tool_calls: [{name: team, arguments: {input: b}}]}, done]}
        helper: {provider: simulated, replies: [{tool_calls: [{name: write}, {name: write}]}, helped]}
      """
    And the ensemble "team.yaml":
      """
      name: team
      agents:
        - {name: member, model_profile: m, tools: [store]}
      tools:
        store: {script: "echo member >> written", parameters: {type: object}, permission: ask}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: store}]}, stored]}
      """
    When I run `ensemble run a.yaml`
    Then the exit code is 3
    And stderr says "may the tool `write` be called with {}?"
    And there is no file "written"
    When I run `ensemble resume --last --allow-tool write`
    Then the exit code is 3
    And stderr says "may the tool `store` be called with {}?"
    When I run `ensemble resume --last --output json --allow-tool store`
    Then it ends as "completed" with exit code 0
    And the file "written" holds:
      """
      helper
      helper
      member
      """

  Scenario: A replay answers from the record and calls no tool
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [count]}
        - {name: b, script: double.rhai, dependencies: [{agent_name: a, condition: "False"}]}
      tools:
        count: {script: "echo x >> calls.txt", parameters: {type: object}}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: count}]}, done]}
      """
    When I run `ensemble run a.yaml`
    And I run `ensemble replay --last`
    Then the exit code is 0
    And the file "calls.txt" holds:
      """
      x
      """

  Scenario: What the agent and its tools said is remembered in its next execution
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model_profile: m, tools: [double], conversation: {max_turns: 2, trigger: every_turn}}
      tools:
        double: {script: double.rhai, parameters: {type: object, properties: {n: {type: integer}}, required: [n]}}
      model_profiles:
        m: {provider: simulated, script: twice.rhai}
      """
    And the Rhai script "twice.rhai":
      """
      let calls = [];
      for message in messages {
        if message.get("tool_calls", ()) != () { calls += message.tool_calls; }
      }
      if calls.len() < execution {
        let n = if calls.len() == 0 { 5 } else { calls[0].result };
        #{ tool_calls: [#{ name: "double", arguments: #{ n: n } }] }
      } else {
        `${calls[execution - 1].result}`
      }
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 1 of "a" gave "response" = "10"
    And execution 2 of "a" gave "response" = "20"

  Scenario: Mistakes are found before anything runs
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model: xai/n, tools: [serach, search.part, b_tool]}
        - {name: b, model: xai/n, tools: [a_tool]}
        - {name: c, script: x.rhai, tools: [search], max_iterations: 2}
      tools:
        search: {script: gone.rhai}
        a_tool: {agent: a}
        b_tool: {agent: b}
        two words: {agent: a}
        nobody: {agent: nobdy}
        both: {agent: a, script: x}
        neither: {description: none}
        server: {mcp: {command: [sh], url: "http://x"}, parameters: {type: object}}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 2
    And the findings include:
      | place | message                                                        |
      | 3:37  | there is no tool 'serach'                                      |
      | 3:45  | `search` is a single tool and contains no other tools          |
      | 5:31  | `tools` is not allowed for an agent of type script             |
      | 5:48  | `max_iterations` is not allowed                                |
      | 7:11  | `parameters` is missing                                        |
      | 10:3  | 'two words' is not a valid name of a tool                      |
      | 11:19 | there is no agent `nobdy`                                      |
      | 12:10 | a tool has both `script` and `agent`                           |
      | 13:12 | a tool has none of `script`, `agent`, `ensemble` or `mcp`      |
      | 14:33 | `mcp` has both `command` and `url`                             |
      | 14:51 | `parameters` is not allowed for a tool with `mcp`              |

  Scenario: Agents that are tools of each other, missing files, and tools that nobody uses
    Given the ensemble "a.yaml":
      """
      name: tools
      agents:
        - {name: a, model: xai/n, tools: [to_b]}
        - {name: b, model: xai/n, tools: [to_c, look]}
        - {name: c, model: xai/n, tools: [to_a]}
      tools:
        to_a: {agent: a}
        to_b: {agent: b}
        to_c: {agent: c}
        look: {script: gone.rhai, parameters: {type: object}}
        idle: {mcp: {command: [no-such-program]}}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 2
    And the findings are:
      | severity | place | message                                                         |
      | error    | 3:37  | these agents call each other as tools in a cycle: a → b → c → a |
      | error    | 10:18 | there is no file `gone.rhai`                                    |
      | hint     | 11:3  | no agent uses the tool `idle`                                   |
      | warning  | 11:25 | `no-such-program` is neither a file nor a command               |

  Scenario: What a run may spend also ends the requests of one execution
    Given the ensemble "a.yaml":
      """
      name: dear
      agents: [{name: a, model_profile: m, tools: [double], retry: {max_attempts: 5, delay_seconds: 0}}]
      tools:
        double: {script: double.rhai, parameters: {type: object, properties: {n: {type: integer}}, required: [n]}}
      conversation_limits: {max_cost: 0.01}
      model_profiles:
        m:
          provider: simulated
          replies: [{text: "I look it up, and up, and up.", tool_calls: [{name: double, arguments: {n: 1}}]}]
          cost: {input_per_million: 0, output_per_million: 300}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "a" failed (max_tokens) saying "`max_cost` is used up, and the model still calls tools"
    And the result has "usage.requests" = 4
    And the result has "usage.cost" = 0.012

  Scenario: A model that is not waited for any more has been asked all the same
    Given the file "slow.sh":
      """
      exec sleep 100
      """
    And the ensemble "a.yaml":
      """
      name: late
      agents:
        - {name: a, model_profile: m, tools: [slow], timeout_seconds: 0.5, retry: {max_attempts: 2, delay_seconds: 0}}
      tools:
        slow: {script: slow.sh, parameters: {type: object}}
      model_profiles:
        m: {provider: simulated, replies: [{tool_calls: [{name: slow, arguments: {}}]}]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "a" failed (timeout) saying "0.5 s"
    And the result has "usage.requests" = 2
    And execution 1 of "a" has "usage.requests" = 2

  Scenario: An attempt that failed has spent what the next one cannot spend again
    Given the ensemble "a.yaml":
      """
      name: dear
      agents: [{name: a, model_profile: m, tools: [double], retry: {max_attempts: 2, delay_seconds: 0}}]
      tools:
        double: {script: double.rhai, parameters: {type: object, properties: {n: {type: integer}}, required: [n]}}
      conversation_limits: {max_cost: 0.006}
      model_profiles:
        m:
          provider: simulated
          replies:
            - &call {text: "I look it up, and up, and up.", tool_calls: [{name: double, arguments: {n: 1}}]}
            - {error: asleep}
            - *call
            - done
          cost: {input_per_million: 0, output_per_million: 300}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "a" failed (max_tokens) saying "`max_cost` is used up"
    And the result has "usage.requests" = 3
