Feature: What an agent is told
  A prompt without variables is followed by the input and by what has been said; a template says itself what it uses.

  Background:
    Given the file ".ensemble/config.yaml":
      """
      model_profiles:
        echo: {provider: simulated, script: echo.rhai}
      """
    And the Rhai script "echo.rhai":
      """
      #{ asked: prompt }.to_json()
      """

  Scenario: A prompt without variables hears everybody, dependencies first
    Given the ensemble "a.yaml":
      """
      name: all
      agents:
        - {name: poet, script: echo verse}
        - {name: critic, script: echo harsh, depends_on: [poet]}
        - {name: broken, script: exit 3, on_error: continue}
        - {name: late, script: echo late, depends_on: [judge]}
        - {name: judge, model_profile: echo, prompt: Decide., depends_on: [critic]}
      default_task: the sea
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "judge" gave "asked" = "Decide.\n\n## Input\nthe sea\n\n## Output of critic\nharsh\n\n## Output of poet\nverse"
    And execution 1 of "judge" has "input_data.dependencies" = {"critic": 1, "poet": 1}

  Scenario: An agent without a prompt to which nothing was said is sent the plain input
    Given the ensemble "a.yaml":
      """
      name: plain
      agents:
        - {name: first, model_profile: echo}
        - {name: second, model_profile: echo, depends_on: [first]}
      default_task: the sea
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 1 of "first" gave "asked" = "the sea"
    And execution 1 of "second" gave "asked" = "## Input\nthe sea\n\n## Output of first\n{\"asked\":\"the sea\"}"

  Scenario Outline: An agent's own words stand there only where it does not remember them
    Given the ensemble "a.yaml":
      """
      name: own
      agents:
        - name: poet
          model_profile: verses
          prompt: Go on.
          conversation: {max_turns: 2, memory: <memory>}
          dependencies: [{agent_name: poet, feedback: true}]
      model_profiles:
        verses: {provider: simulated, script: verses.rhai}
      """
    And the Rhai script "verses.rhai":
      """
      if messages.len() == 1 && execution == 1 { "verse" } else { #{ asked: prompt }.to_json() }
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 2 of "poet" gave "asked" = <asked>

    Examples:
      | memory       | asked                                   |
      | conversation | "Go on."                                |
      | none         | "Go on.\\n\\n## Output of poet\\nverse" |

  Scenario: A prompt with a variable is sent as it stands
    Given the ensemble "a.yaml":
      """
      name: own-words
      agents:
        - {name: poet, script: echo verse}
        - {name: judge, model_profile: echo, prompt: "Judge {{ input }}.", depends_on: [poet]}
      default_task: the sea
      """
    When I run `ensemble run a.yaml --output json`
    Then execution 1 of "judge" gave "asked" = "Judge the sea."
    And execution 1 of "judge" has "input_data.dependencies" = {"poet": 1}
