// Builds a loop of a writer and a critic from nothing, by the forms only, and runs it. Prints what was seen as JSON. Elements are found by
// their roles and names.
import fs from 'node:fs';
import path from 'node:path';
import { browse, judged, project, seen, serve, watch } from './base.mjs';

const file = path.join(project, 'ensembles/tale.yaml');
const { server, link } = await serve(0);
const browser = await browse();
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  watch(page);
  const sum = told => page.waitForFunction(told => document.querySelector('.found .sum')?.textContent === told, told);
  /** Does something that changes the text, and waits until the forms are those of the new text. */
  const redrawn = async work => {
    const old = await page.locator('.design-panel').evaluateHandle(panel => panel.lastElementChild);
    await work();
    await page.waitForFunction(element => !element.isConnected, old);
  };
  const panel = page.locator('.design-panel');
  const keyField = name => panel.getByLabel(name, { exact: true });
  const set = (name, value) => redrawn(async () => {
    await keyField(name).fill(value);
    await keyField(name).blur();
  });
  const choose = async name => {
    await redrawn(() => page.locator(`.graph g.agent[data-agent="${name}"]`).click());
    await panel.getByRole('heading', { name: new RegExp(`^${name} `) }).waitFor();
  };
  const settings = async () => {
    const fold = page.locator('.file-settings');
    if ((await fold.getAttribute('open')) === null) await fold.locator('> summary').click();
  };

  await page.goto(link);
  await page.getByRole('link', { name: 'New run' }).click();
  const name = page.getByLabel('Name of a new ensemble');
  await page.getByRole('button', { name: 'Create' }).or(page.locator('summary', { hasText: 'New ensemble' })).first().waitFor();
  if (!(await name.isVisible())) await page.locator('summary', { hasText: 'New ensemble' }).click();
  await name.fill('tale');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.locator('.graph g.agent').first().waitFor();
  await sum('Nothing found');

  // The models, and the inputs of the file: their rows.
  await settings();
  const profiles = keyField("model_profiles");
  const known = JSON.parse(await profiles.inputValue());
  const simulated = replies => ({ provider: "simulated", replies });
  known.writer = simulated(["A long tale.", "A tale."]);
  known.critic = simulated(['{"good": false, "notes": "Too long."}', '{"good": true, "notes": "Good."}']);
  await set("model_profiles", JSON.stringify(known));
  await settings();
  const inputs = page.getByRole('region', { name: 'inputs' });
  const added = async (entry, type) => redrawn(async () => {
    await inputs.getByLabel('Name of a new entry of inputs').fill(entry);
    await inputs.getByLabel('Type of the new entry of inputs').selectOption(type);
    await inputs.getByRole('button', { name: 'Add to inputs' }).click();
  });
  await inputs.getByLabel('Name of a new entry of inputs').fill('1st');
  await inputs.getByRole('button', { name: 'Add to inputs' }).click();
  await inputs.getByRole('alert').waitFor();
  seen.bad_name = await inputs.getByRole('alert').innerText();
  await added('topic', 'string');
  const topic = page.getByRole('group', { name: 'topic' });
  seen.required = await topic.getByLabel('Required: topic').isChecked();
  await redrawn(async () => {
    await topic.getByLabel('description of topic').fill('What the tale is about.');
    await topic.getByLabel('description of topic').blur();
  });
  await added('words', 'integer');
  const words = page.getByRole('group', { name: 'words' });
  await redrawn(() => words.getByLabel('Required: words').uncheck());
  await redrawn(async () => {
    await words.getByLabel('default of words').fill('50');
    await words.getByLabel('default of words').press('Enter');
  });
  seen.optional = !(await words.getByLabel('Required: words').isChecked());
  await words.locator('summary').click();
  await words.getByLabel('minimum of words').fill('100');
  await words.getByLabel('minimum of words').press('Enter');
  await words.getByRole('alert').filter({ visible: true }).waitFor();
  seen.wrong_minimum = await words.getByRole('alert').filter({ visible: true }).innerText();
  await added('tone', 'string');
  await redrawn(() => page.getByRole('button', { name: 'Remove tone' }).click());
  seen.tall = await page.evaluate(() => document.documentElement.scrollHeight > innerHeight);
  await judged(page, 'loop-inputs');

  // A form that a person fills in stays while the text changes.
  const form = page.locator('.adding');
  await form.locator('summary').click();
  await form.getByLabel('Name', { exact: true }).fill('half');
  await set('description', 'Writes a tale.');
  seen.half_filled = await form.getByLabel('Name', { exact: true }).inputValue();

  // The writer: the agent of the new ensemble, with another name, a profile, a prompt and a limit.
  await choose('companion');
  await keyField('Name').first().fill('writer');
  await redrawn(() => panel.getByRole('button', { name: 'Rename', exact: true }).click());
  await panel.getByRole('heading', { name: /^writer / }).waitFor();
  const add = async (agent, profile, prompt, to) => {
    if ((await form.getAttribute('open')) === null) await form.locator('summary').click();
    await form.getByLabel('Name', { exact: true }).fill(agent);
    await form.getByLabel('Kind').selectOption('model_profile');
    await form.getByLabel('What it runs').fill(profile);
    await form.getByLabel('Prompt').fill(prompt);
    if (to) await form.getByLabel('Listens to').selectOption(to);
    await redrawn(() => form.getByRole('button', { name: 'Add agent' }).click());
  };
  await add('critic', 'critic', 'Judge: {{ writer.response }}', 'writer');
  await set('output_schema', '{type: object, required: [good, notes], properties: {good: {type: boolean}, notes: {type: string}}}');
  await set('conversation.max_turns', '3');
  await choose('writer');
  await set('model_profile', 'writer');
  await judged(page, 'loop-writer');
  await set('conversation.max_turns', '3');
  const listen = panel.getByRole('group', { name: 'Listen to another agent' });
  await listen.getByLabel('Condition').fill('not output.good');
  await listen.getByLabel('Closes a loop (feedback)').check();
  await redrawn(() => listen.getByRole('button', { name: 'Connect' }).click());
  await set('prompt', 'Write about {{ inputs.topic }} in {{ inputs.words }} words. {{ critic.notes }}');

  // An input gets another name where it is declared and where it is used, by the button and by the key; a name that is used is refused.
  await settings();
  const rename = async (input, wanted, give) => {
    await inputs.getByLabel(`Name of ${input}`).fill(wanted);
    await give();
  };
  await rename('topic', 'words', () => inputs.getByRole('button', { name: 'Rename topic' }).click());
  await inputs.getByRole('alert').filter({ visible: true }).waitFor();
  seen.taken_name = await inputs.getByRole('alert').filter({ visible: true }).innerText();
  await redrawn(() => rename('topic', 'subject', () => inputs.getByRole('button', { name: 'Rename topic' }).click()));
  seen.renamed = (await page.inputValue('.source')).match(/subject/g).length;
  seen.prompt_after_rename = await keyField('prompt').inputValue();
  await judged(page, 'loop-renamed');
  await redrawn(() => rename('subject', 'topic', () => inputs.getByLabel('Name of subject').press('Enter')));

  // What the run gives, and its limit.
  await settings();
  await set('result', 'text: outputs.writer.response');
  await set('success', 'outputs.critic.good');
  await set('conversation_limits.max_total_turns', '8');
  await sum('1 hint');
  await page.getByRole('button', { name: 'Fix: remove the profile' }).click();
  await sum('Nothing found');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.waitForSelector('h1 .badge:text-is("saved")');
  await judged(page, 'loop-built');
  seen.text = fs.readFileSync(file, 'utf8');

  // The run, with a value for the required input.
  await page.locator('.edit-head').getByRole('link', { name: 'New run' }).click();
  await page.getByRole('heading', { name: 'New run of tale' }).waitFor();
  await page.getByLabel(/^topic/).waitFor();
  seen.about = await page.getByText('What the tale is about.').isVisible();
  await page.getByRole('button', { name: 'Start' }).click();
  await page.locator('[aria-invalid="true"]').waitFor();
  await page.getByLabel(/^topic/).fill('the sea');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('heading', { name: 'Result' }).waitFor();
  seen.state = await page.getByRole('heading', { level: 1 }).innerText();
  seen.result = (await page.getByRole('region', { name: 'What happened' }).innerText()).replaceAll(/\s+/g, ' ');
  seen.executions = await page.locator('.row.execution .agent').allInnerTexts();
  await page.getByRole('option').filter({ hasText: 'writer #2' }).click();
  await page.getByRole('heading', { name: 'Sent' }).waitFor();
  seen.sent = await page.getByRole('region', { name: 'Execution' }).locator('pre').filter({ hasText: 'Write about' }).innerText();

  // Keys without a value, in a file that a person has begun by hand.
  await page.goto(new URL('/#/edit/blank', link).href);
  await page.locator('.graph g.agent').first().waitFor();
  await choose('one');
  seen.blank = await keyField('prompt').inputValue();
  await set('prompt', 'Say hello.');
  await set('conversation.max_turns', '2');
  await settings();
  await set('conversation_limits.max_total_turns', '4');
  await settings();
  await added('topic', 'string');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.waitForSelector('h1 .badge:text-is("saved")');
  seen.filled = fs.readFileSync(path.join(project, 'ensembles/blank.yaml'), 'utf8');

  // A text that never had a graph: its agents can be chosen all the same.
  await page.goto(new URL('/#/edit/broken', link).href);
  await page.getByRole('button', { name: 'lonely' }).click();
  await panel.getByRole('heading', { name: /^lonely / }).waitFor();
  await set('conversation.max_turns', '2');
  await page.locator('.graph g.agent').first().waitFor();
  await judged(page, 'loop-mended');
} catch (error) {
  seen.failed = error.message.slice(0, 900);
  if (process.env.ENSEMBLE_PICTURES) await browser.contexts()[0]?.pages()[0]?.screenshot({ path: path.join(process.env.ENSEMBLE_PICTURES, 'failed.png') });
} finally {
  await browser.close();
  server.kill('SIGKILL');
}
console.log(JSON.stringify(seen));
