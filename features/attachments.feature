Feature: Attachments
  Files are sent with the prompt of an agent: images, PDF and text. The record contains them.

  Background:
    Given the file "tiny.gif":
      """
      GIF89atiny
      """
    And the file "docs/paper.pdf":
      """
      %PDF-1.4 tiny
      """
    And the file "notes.md":
      """
      The sea is big.
      """

  Scenario Outline: Every provider gets them in its own form
    Given a model server "own" that answers, one after the other:
      | says I see it. |
    And the ensemble "see.yaml":
      """
      name: see
      default_task: docs
      agents:
        - name: viewer
          model_profile: m
          prompt: What is it?
          attachments: <attachments>
      model_profiles:
        m: {provider: <provider>, model: x, base_url: "{own}", retry: {max_attempts: 1}}
      """
    When I run `ensemble run see.yaml --output json`
    Then request 1 to "own" had "<path>" = <value>

    Examples:
      | provider  | attachments                 | path                                   | value                                         |
      | openai    | [tiny.gif]                  | messages.0.content.0.image_url.url     | "data:image/gif;base64,R0lGODlhdGlueQo="      |
      | openai    | ["{{ input }}/paper.pdf"]   | messages.0.content.0                   | {"type": "file", "file": {"filename": "paper.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQgdGlueQo="}} |
      | openai    | [notes.md, tiny.gif]        | messages.0.content.0.text              | "## notes.md\\nThe sea is big.\\n"                |
      | openai    | ["{{ ['tiny.gif', 'notes.md'] }}"] | messages.0.content.1.text       | "## notes.md\\nThe sea is big.\\n"                |
      | openai    | [notes.md]                  | messages.0.content.1.text              | "What is it?\\n\\n## Input\\ndocs"               |
      | anthropic | [tiny.gif]                  | messages.0.content.0                   | {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlhdGlueQo="}} |
      | anthropic | [docs/paper.pdf]            | messages.0.content.0.source.media_type | "application/pdf"                             |
      | anthropic | [notes.md]                  | messages.0.content.0                   | {"type": "document", "title": "notes.md", "source": {"type": "text", "media_type": "text/plain", "data": "The sea is big.\\n"}} |
      | gemini    | [tiny.gif]                  | contents.0.parts.0                     | {"inlineData": {"mimeType": "image/gif", "data": "R0lGODlhdGlueQo="}} |
      | gemini    | [docs/paper.pdf]            | contents.0.parts.0.inlineData.mimeType | "application/pdf"                             |
      | ollama    | [tiny.gif, notes.md]        | messages.0.images                      | ["R0lGODlhdGlueQo="]                          |
      | ollama    | [tiny.gif, notes.md]        | messages.0.content                     | "## notes.md\\nThe sea is big.\\n\\n\\nWhat is it?\\n\\n## Input\\ndocs" |

  Scenario: What a model does not take is an error before the request
    Given a model server "own" that answers, one after the other:
      | says I see it. |
    And the ensemble "see.yaml":
      """
      name: see
      agents: [{name: viewer, model_profile: m, prompt: What?, attachments: [docs/paper.pdf]}]
      model_profiles:
        m: {provider: ollama, model: x, base_url: "{own}"}
      """
    When I run `ensemble run see.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "viewer" failed (model) saying "Ollama supports images and texts, but the attachment `docs/paper.pdf` is application/pdf"
    And "own" was asked 0 times

  Scenario: The record contains the files, so resuming, continuing and replaying need none of them
    Given the Rhai script "seen.rhai":
      """
      let text = "";
      for message in messages {
        for file in message.get("attachments", []) { text += `${file.name} ${file.mime_type} ${file.size}, `; }
      }
      text
      """
    And the ensemble "see.yaml":
      """
      name: see
      default_task: tiny.gif
      agents:
        - {name: viewer, model_profile: m, prompt: "Look at {{ input }}.", attachments: ["{{ input }}"]}
      model_profiles:
        m: {provider: simulated, script: seen.rhai}
      """
    When I run `ensemble run see.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "viewer" gave "response" = "tiny.gif image/gif 11, "
    When I run `ensemble runs show --last -v`
    Then stdout says "attached: tiny.gif (image/gif, 11 bytes)"
    When in "tiny.gif" `GIF89atiny` becomes `GIF89atampered`
    And I run `ensemble replay --last`
    Then the exit code is 0
    When I run `ensemble continue --last notes.md --output json`
    Then it ends as "completed" with exit code 0
    And execution 2 of "viewer" gave "response" = "tiny.gif image/gif 11, notes.md text/plain 16, "

  Scenario: Each part of a list has its file
    Given the Rhai script "seen.rhai":
      """
      messages[0].attachments[0].name
      """
    And the ensemble "see.yaml":
      """
      name: see
      agents:
        - name: viewer
          model_profile: m
          for_each: {in: [tiny.gif, notes.md], as: file}
          attachments: ["{{ file }}"]
      model_profiles:
        m: {provider: simulated, script: seen.rhai}
      """
    When I run `ensemble run see.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "viewer" gave "items" = [{"response": "tiny.gif"}, {"response": "notes.md"}]

  Scenario Outline: A file that cannot be sent fails the execution, with its path
    Given the ensemble "see.yaml":
      """
      name: see
      default_task: <path>
      agents:
        - {name: viewer, model_profile: simulated, attachments: ["{{ input }}"]}
      """
    When I run `ensemble run see.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "viewer" failed (unavailable) saying "the attachment `<path>` cannot be sent: <why>"

    Examples:
      | path        | why                                                          |
      | missing.png | No such file or directory                                    |
      | docs        | it is a folder, not a file                                   |
      | /etc/passwd | it is outside the project; a path from a template must be inside |

  Scenario: A path that is no template is checked before anything runs
    Given the ensemble "see.yaml":
      """
      name: see
      agents:
        - {name: viewer, model: xai/x, prompt: What?, attachments: [tiny.gif, mising.png, "{{ input }}.png"]}
        - {name: third, model: xai/x, attachments: ["{{ nobody }}"], prompt: "{{ input }}"}
      """
    When I run `ensemble validate see.yaml --format json`
    Then the exit code is 2
    And the findings are:
      | severity | place | message                        |
      | error    | 3:73  | there is no file `mising.png`  |
      | error    | 4:51  | unknown variable `nobody`      |
    When I run `ensemble run see.yaml`
    Then the exit code is 2
    And no run was started
