Feature: Agents converse over several turns
  The eighteen scenarios of ADR-005, and its example.

  Scenario: ADR-005's example runs as it stands there
    Given the ensemble "iterative-analysis.yaml":
      """
      # ensemble.yaml with conversation support for mixed agent types
      name: iterative-analysis
      agents:
        - name: data_extractor
          script: primitives/analysis/extract_data.py
          conversation:
            max_turns: 2

        - name: llm_analyzer
          model_profile: efficient
          prompt: |
            Analyze the data provided by the data extractor agent.
            If more clarification is needed, output: {"needs_clarification": true}
          dependencies:
            - agent_name: data_extractor
          conversation:
            max_turns: 3
            triggers_conversation: true

        - name: user_clarification
          script: primitives/user-interaction/get_clarification.py
          dependencies:
            - agent_name: llm_analyzer
              condition: "context.get('needs_clarification', False)"
              max_executions: 3
          conversation:
            max_turns: 3

        - name: final_synthesis
          model_profile: micro-local
          prompt: |
            Synthesize all the analysis and clarification into a final report.
          dependencies:
            - agent_name: user_clarification
              condition: "context.get('clarification_provided', False)"

      conversation_limits:
        max_total_turns: 15
        timeout_seconds: 600
      """
    And the file ".ensemble/config.yaml":
      """
      model_profiles:
        efficient:
          provider: simulated
          replies: ['{"needs_clarification": true}', '{"needs_clarification": false, "analysis": "sound"}']
        micro-local:
          provider: simulated
          replies: ['{"final_analysis": "all is well", "synthesis_complete": true}']
      """
    # The example names Python scripts; what runs them here is a shell that is called python3.
    And the program "bin/python3":
      """
      #!/bin/sh
      exec sh "$@"
      """
    And the environment variable PATH is "{folder}/bin:/usr/bin:/bin"
    And the file "primitives/analysis/extract_data.py":
      """
      echo '{"rows": [1, 2, 3]}'
      """
    And the file "primitives/user-interaction/get_clarification.py":
      """
      echo '{"clarification_provided": true}'
      """
    When I run `ensemble run iterative-analysis.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents                             |
      | 1    | data_extractor                     |
      | 2    | llm_analyzer                       |
      | 3    | data_extractor, user_clarification |
      | 4    | llm_analyzer, final_synthesis      |
    And the final state has "final_analysis" = "all is well"
    And the final state has "synthesis_complete" = true
    And the final state has "analysis" = "sound"
    And everybody ran

  Scenario: ADR-005's example without a need for clarification ends early
    Given the ensemble "a.yaml":
      """
      name: iterative-analysis
      agents:
        - name: data_extractor
          script: extract.rhai
          conversation: {max_turns: 2}
        - name: llm_analyzer
          model_profile: efficient
          prompt: Analyze.
          dependencies: [{agent_name: data_extractor}]
          conversation: {max_turns: 3, triggers_conversation: true}
        - name: user_clarification
          script: clarify.rhai
          dependencies:
            - agent_name: llm_analyzer
              condition: "context.get('needs_clarification', False)"
              max_executions: 3
          conversation: {max_turns: 3}
        - name: final_synthesis
          model_profile: efficient
          prompt: Synthesize.
          dependencies:
            - agent_name: user_clarification
              condition: "context.get('clarification_provided', False)"
      model_profiles:
        efficient: {provider: simulated, replies: ['{"needs_clarification": false}']}
      """
    And the Rhai script "extract.rhai":
      """
      #{ rows: execution }
      """
    And the Rhai script "clarify.rhai":
      """
      #{ clarification_provided: true }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents         |
      | 1    | data_extractor |
      | 2    | llm_analyzer   |
      | 3    | data_extractor |
      | 4    | llm_analyzer   |
    And "user_clarification" never ran: condition false on llm_analyzer: context.get('needs_clarification', False) (context.get('needs_clarification', False) = false)
    And "final_synthesis" never ran: waiting for user_clarification

  Scenario: 1. Agents converse over several turns and the context accumulates
    Given the ensemble "a.yaml":
      """
      name: gather
      agents:
        - name: collector
          script: collect.rhai
          dependencies:
            - {agent_name: critic, feedback: true, condition: "not context.get('enough', False)"}
          conversation: {max_turns: 5}
        - name: critic
          model_profile: critic
          prompt: "Known so far: {{ context.facts }}. Is that enough?"
          dependencies: [{agent_name: collector}]
          conversation: {max_turns: 5}
      conversation_limits: {max_total_turns: 10}
      model_profiles:
        critic: {provider: simulated, script: critic.rhai}
      """
    And the Rhai script "collect.rhai":
      """
      let known = if "facts" in context { context.facts } else { [] };
      known.push("fact " + execution);
      #{ facts: known, seen_critic: if "critic" in dependencies { dependencies.critic.response } else { "" } }
      """
    And the Rhai script "critic.rhai":
      """
      if prompt.contains("fact 3") { `{"enough": true, "said": "${prompt.len()}"}` } else { "more, please: " + prompt }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents    |
      | 1    | collector |
      | 2    | critic    |
      | 3    | collector |
      | 4    | critic    |
      | 5    | collector |
      | 6    | critic    |
    And the final state has "facts" = ["fact 1", "fact 2", "fact 3"]
    And the final state has "enough" = true
    And execution 2 of "collector" gave "facts" = ["fact 1", "fact 2"]
    And the conversation took 6 turns

  Scenario: 2. A script's structured output reaches the LLM agent unchanged and is used
    Given the ensemble "a.yaml":
      """
      name: handover
      agents:
        - name: extractor
          script: extract.sh
        - name: labelled
          model_profile: echo
          prompt: Judge this.
          depends_on: [extractor]
        - name: templated
          model_profile: echo
          prompt: "{{ extractor.rows[1].name }}={{ extractor.rows[1].score }};{{ context.extractor.total }};{{ input }}"
          depends_on: [extractor]
      model_profiles:
        echo: {provider: simulated, script: echo.rhai}
      """
    And the file "extract.sh":
      """
      printf %s '{"rows": [{"name": "Zoë", "score": 1.5}, {"name": "\"quoted\" \\ {{ input }}", "score": -3}], "total": 2}'
      """
    And the Rhai script "echo.rhai":
      """
      prompt
      """
    When I run `ensemble run a.yaml -i "the task" --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "templated" gave "response" = "\"quoted\" \\ {{ input }}=-3;2;the task"
    And execution 1 of "labelled" quotes the output of "extractor" unchanged

  Scenario: 3. A call for clarification starts the input agent, an injected answer arrives, the conversation goes on
    Given the ensemble "a.yaml":
      """
      name: clarify
      agents:
        - name: analyzer
          script: analyze.rhai
          dependencies: [{agent_name: user, feedback: true}]
          conversation: {max_turns: 2}
        - name: user
          input: {prompt: "Which year? You said: {{ analyzer.question }}"}
          dependencies:
            - {agent_name: analyzer, condition: "context.get('needs_clarification', False)"}
          conversation: {max_turns: 3}
      """
    And the Rhai script "analyze.rhai":
      """
      if "user" in dependencies {
        #{ needs_clarification: false, year: dependencies.user.response }
      } else {
        #{ needs_clarification: true, question: "sales?" }
      }
      """
    When I run `ensemble run a.yaml --answer user=1984 --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents   |
      | 1    | analyzer |
      | 2    | user     |
      | 3    | analyzer |
    And the final state has "year" = "1984"
    And the final state has "needs_clarification" = false
    When I run `ensemble run a.yaml --output json`
    Then it ends as "waiting_for_input" with exit code 3

  Scenario Outline: 4. Only agents whose conditions hold run
    Given the ensemble "a.yaml":
      """
      name: routes
      agents:
        - name: triage
          script: triage.rhai
        - name: refund
          script: done.rhai
          dependencies: [{agent_name: triage, condition: "output.kind == 'refund'"}]
        - name: complaint
          script: done.rhai
          dependencies: [{agent_name: triage, condition: "context.kind in ['complaint', 'rant']"}]
        - name: both
          script: done.rhai
          dependencies: [{agent_name: triage, condition: "output.get('urgent') and turn_count >= 1"}]
      """
    And the Rhai script "triage.rhai":
      """
      #{ kind: input, urgent: input == "rant" }
      """
    And the Rhai script "done.rhai":
      """
      #{ done: true }
      """
    When I run `ensemble run a.yaml -i <kind> --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents |
      | 1    | triage |
      | 2    | <ran>  |

    Examples:
      | kind      | ran             |
      | refund    | refund          |
      | complaint | complaint       |
      | rant      | complaint, both |

  Scenario: 5. Injected answers come from a model profile, fit the conversation, and need no person
    Given the ensemble "a.yaml":
      """
      name: interview
      agents:
        - name: interviewer
          script: ask.rhai
          dependencies: [{agent_name: user, feedback: true}]
          conversation: {max_turns: 3}
        - name: user
          input: {prompt: "{{ interviewer.question }}", responses: {model_profile: person}}
          depends_on: [interviewer]
          conversation: {max_turns: 2}
      model_profiles:
        person: {provider: simulated, script: person.rhai}
      """
    And the Rhai script "ask.rhai":
      """
      #{ question: if execution == 1 { "Your name?" } else { "Your town?" } }
      """
    And the Rhai script "person.rhai":
      """
      if prompt.contains("Your name?") { "Ada" } else if prompt.contains("Your town?") { "London" } else { throw prompt }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "user" gave "response" = "Ada"
    And execution 2 of "user" gave "response" = "London"
    And the result has "simulated" = ["user"]

  Scenario: 6. State, counts and history last over turns
    Given the ensemble "a.yaml":
      """
      name: counting
      agents:
        - name: counter
          script: count.rhai
          dependencies: [{agent_name: watcher, feedback: true}]
          conversation: {max_turns: 3}
        - name: watcher
          script: watch.rhai
          dependencies:
            - agent_name: counter
              condition: "len(history) == executions['counter'] + executions['watcher'] and history[-1].agent_name == 'counter'"
          conversation: {max_turns: 2, state_key: seen}
      """
    And the Rhai script "count.rhai":
      """
      let out = #{ count: if "count" in context { context.count + 1 } else { 1 } };
      out["first_" + execution] = turn_count;
      out
      """
    And the Rhai script "watch.rhai":
      """
      #{ watched: context.count }
      """
    When I run `ensemble run a.yaml --set start=7 --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent   | count |
      | counter | 3     |
      | watcher | 2     |
    And the final state has "count" = 3
    And the final state has "start" = 7
    And the final state has "seen" = {"watched": 2}
    And the final state has "first_1" = 0
    And the final state has "first_3" = 4
    And the final state has no "watcher"
    And execution 2 of "counter" has "turn_number" = 3
    And execution 2 of "counter" has "attempt" = 1
    And execution 2 of "counter" has "error" = null
    And the history's entries are complete

  Scenario: 7. Script, LLM, script, LLM: a chain completes with all taking part
    Given the ensemble "a.yaml":
      """
      name: chain
      agents:
        - {name: one, script: one.sh}
        - {name: two, model_profile: add, prompt: "{{ one.response }}", depends_on: [one]}
        - {name: three, script: three.rhai, depends_on: [two]}
        - {name: four, model_profile: add, prompt: "{{ three.response }}", depends_on: [three]}
      model_profiles:
        add: {provider: simulated, script: add.rhai}
      """
    And the file "one.sh":
      """
      echo 1
      """
    And the Rhai script "three.rhai":
      """
      dependencies.two.response + "3"
      """
    And the Rhai script "add.rhai":
      """
      prompt + "+"
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents |
      | 1    | one    |
      | 2    | two    |
      | 3    | three  |
      | 4    | four   |
    And the final state has "four.response" = "1+3+"
    And everybody ran

  Scenario: 8. Small simulated models: the mechanics work and finish in time
    Given the ensemble "a.yaml":
      """
      name: small
      agents:
        - name: host
          model_profile: tiny
          prompt: Say something.
          dependencies: [{agent_name: guest, feedback: true}]
          conversation: {max_turns: 10}
        - name: guest
          model: simulated/anything
          prompt: Answer.
          dependencies: [{agent_name: host}]
          conversation: {max_turns: 10}
      conversation_limits: {max_total_turns: 30, timeout_seconds: 20}
      model_profiles:
        tiny: {provider: simulated, replies: [hello, again]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the conversation took 20 turns
    And the result has "usage.requests" = 20
    And the result has "usage.estimated" = true
    And the result has "simulated" = ["host", "guest"]
    And it took less than 20 seconds

  Scenario: 9. An endless circle stops at max_total_turns, gracefully, and the state says why
    Given the ensemble "a.yaml":
      """
      name: endless
      agents:
        - name: ping
          script: echo.rhai
          dependencies: [{agent_name: pong, feedback: true}]
          conversation: {max_turns: 1000}
        - name: pong
          script: echo.rhai
          dependencies: [{agent_name: ping}]
          conversation: {max_turns: 1000}
      conversation_limits: {max_total_turns: 7}
      """
    And the Rhai script "echo.rhai":
      """
      let out = #{};
      out["by_" + agent_name] = execution;
      out
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "max_total_turns" with exit code 4
    And the conversation took 7 turns
    And the final state has "by_ping" = 4
    And the final state has "by_pong" = 3
    And the result has "detail" = "max_total_turns was reached: 7"
    When I run `ensemble run a.yaml --fail-on-limit --output json`
    Then it ends as "max_total_turns" with exit code 4

  Scenario: 10. agent_requests are processed: the target runs next and gets its parameters
    Given the ensemble "a.yaml":
      """
      name: requests
      agents:
        - name: manager
          script: manage.rhai
          conversation: {triggers_conversation: true}
        - name: worker
          script: work.rhai
          dependencies: [{agent_name: manager, condition: "False"}]
          conversation: {max_turns: 2}
      """
    And the Rhai script "manage.rhai":
      """
      #{ plan: "go", agent_requests: [#{ target_agent: "worker", parameters: #{ job: "dig", depth: 3 }, priority: 2 }] }
      """
    And the Rhai script "work.rhai":
      """
      #{ asked: request }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents  |
      | 1    | manager |
      | 2    | worker  |
    And the final state has "asked" = {"from": "manager", "parameters": {"job": "dig", "depth": 3}, "priority": 2}
    And the final state has "plan" = "go"
    And the final state has no "agent_requests"
    And there are no warnings

  Scenario Outline: 11 and 12. The fields of an agent decide what it is
    Given the ensemble "a.yaml":
      """
      name: kinds
      agents:
        - name: it
          <field>
      model_profiles:
        p: {provider: simulated, replies: [said]}
      """
    And the Rhai script "s.rhai":
      """
      "done"
      """
    When I run `ensemble run a.yaml`
    Then the exit code is 0
    And stdout says "it <kind> ·"

    Examples:
      | field            | kind   |
      | script: s.rhai   | script |
      | model_profile: p | llm    |

  Scenario Outline: 11 and 12. A type that contradicts the fields is an error
    Given the ensemble "a.yaml":
      """
      name: kinds
      agents:
        - name: it
          type: <type>
          <field>
      """
    When I run `ensemble run a.yaml`
    Then the exit code is 2
    And stderr says "a.yaml:4"
    And no run was started

    Examples:
      | type   | field            |
      | llm    | script: s.rhai   |
      | script | model_profile: p |

  Scenario: 13. Both script and model_profile: an error that names both
    Given the ensemble "a.yaml":
      """
      name: both
      agents:
        - name: confused
          script: s.rhai
          model_profile: p
        - name: empty
          description: neither
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 2
    And the findings are:
      | severity | place | message          |
      | error    | 5:5   | `model_profile`  |
      | error    | 6:11  | empty           |
    And stdout says "confused"
    When I run `ensemble run a.yaml`
    Then the exit code is 2
    And stderr says "`script`"
    And stderr says "`model_profile`"
    And no run was started

  Scenario: 14. A script's failure is caught with its cause, and the others go on
    Given the ensemble "a.yaml":
      """
      name: failing
      agents:
        - name: broken
          script: broken.sh
        - name: needs_it
          script: fine.rhai
          depends_on: [broken]
        - name: beside
          script: fine.rhai
        - name: after
          script: fine.rhai
          depends_on: [beside]
      """
    And the file "broken.sh":
      """
      echo "the disk is on fire" >&2
      exit 7
      """
    And the Rhai script "fine.rhai":
      """
      #{ fine: agent_name }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the agents ran in this order:
      | turn | agents         |
      | 1    | broken, beside |
      | 2    | after          |
    And execution 1 of "broken" failed (exit) saying "the script ended with exit code 7"
    And execution 1 of "broken" failed (exit) saying "the disk is on fire"
    And the final state has "fine" = "after"
    And the final state has no "broken"
    And "needs_it" never ran: waiting for broken

  Scenario: 15. An LLM's failure is caught with its cause, and the others go on
    Given the ensemble "a.yaml":
      """
      name: failing
      agents:
        - name: broken
          model_profile: down
          prompt: Hello?
        - name: beside
          script: fine.rhai
        - name: after
          script: fine.rhai
          depends_on: [beside]
      model_profiles:
        down: {provider: simulated, replies: [{error: the model fell asleep}]}
      """
    And the Rhai script "fine.rhai":
      """
      #{ fine: agent_name }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And the agents ran in this order:
      | turn | agents         |
      | 1    | broken, beside |
      | 2    | after          |
    And execution 1 of "broken" failed (model) saying "the model fell asleep"
    And the final state has "fine" = "after"

  Scenario: 16. Answers from a simulated model for several questions within thirty seconds
    Given the ensemble "a.yaml":
      """
      name: story
      agents:
        - name: story
          model_profile: teller
          prompt: "{{ player.response }}"
          dependencies: [{agent_name: player, feedback: true}]
          conversation: {max_turns: 5}
        - name: player
          input: {prompt: "{{ story.response }}", choices: [left, right], responses: {model_profile: player}}
          depends_on: [story]
          conversation: {max_turns: 4}
      model_profiles:
        teller: {provider: simulated, replies: ["A fork.", "A door.", "A lake.", "A wall.", "The end."]}
        player: {provider: simulated, replies: [left, RIGHT, right, Left]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And it took less than 30 seconds
    And the execution counts are:
      | agent  | count |
      | story  | 5     |
      | player | 4     |
    And execution 2 of "player" gave "response" = "right"
    And execution 5 of "story" gave "response" = "The end."

  Scenario: 17. Counts are exact, max_turns is enforced, a cap on executions ends the conversation
    Given the ensemble "a.yaml":
      """
      name: caps
      agents:
        - name: ping
          script: echo.rhai
          dependencies: [{agent_name: pong, feedback: true}]
          conversation: {max_turns: 5}
        - name: pong
          script: echo.rhai
          dependencies: [{agent_name: ping}]
          conversation: {max_turns: 3}
      """
    And the Rhai script "echo.rhai":
      """
      execution
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent | count |
      | ping  | 4     |
      | pong  | 3     |

  Scenario: 17. A cap on executions ends the conversation after that turn
    Given the ensemble "a.yaml":
      """
      name: caps
      agents:
        - name: ping
          script: echo.rhai
          dependencies: [{agent_name: pong, feedback: true}]
          conversation: {max_turns: 50}
        - name: pong
          script: echo.rhai
          dependencies: [{agent_name: ping}]
          conversation: {max_turns: 50}
        - name: bystander
          script: echo.rhai
          dependencies: [{agent_name: ping, condition: "output.response == 3"}]
      conversation_limits: {max_agent_executions: {ping: 3}}
      """
    And the Rhai script "echo.rhai":
      """
      execution
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "max_agent_executions" with exit code 4
    And the result has "detail" = "max_agent_executions of ping was reached: 3"
    And the execution counts are:
      | agent     | count |
      | ping      | 3     |
      | pong      | 2     |
      | bystander | 0     |
    And "bystander" never ran: the run ended first

  Scenario Outline: 18. Conditions are safe, and malformed ones fail with clear errors
    Given the ensemble "a.yaml":
      """
      name: unsafe
      agents:
        - name: one
          script: one.rhai
        - name: two
          script: one.rhai
          dependencies:
            - agent_name: one
              condition: >-
                <condition>
      """
    And the Rhai script "one.rhai":
      """
      "x"
      """
    When I run `ensemble run a.yaml --output json`
    Then the exit code is 2
    And stderr says "a.yaml:10:"
    And stderr says "<says>"
    And no run was started

    Examples:
      | condition                            | says           |
      | __import__('os').system('touch pwn') | __import__     |
      | eval("1")                            | eval           |
      | import "x"                           | import         |
      | print("x")                           | print          |
      | open('/etc/passwd')                  | open           |
      | secrets == 1                         | secrets        |
      | context.x = 1                        | assign         |
      | while true { }                       | while          |
      | \|x\| x                              | closure        |
      | output.response ==                   | unexpected end |
      | (1 + 2                               | )              |
      | 'abc                                 | no closing     |
