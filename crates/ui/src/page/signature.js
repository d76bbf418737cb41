// The name with which a person at this browser answers. It is a statement of the person; nobody checks it.

import { h } from '/base.js';

const KEY = 'ensemble.name';
/** The name of a browser that stores nothing. */
let unstored = '';

/** The name that is recorded with an answer; empty: none. */
export function answerName() {
  try {
    return localStorage.getItem(KEY) ?? unstored;
  } catch {
    return unstored;
  }
}

function keepName(name) {
  unstored = name;
  try {
    if (name) localStorage.setItem(KEY, name);
    else localStorage.removeItem(KEY);
  } catch {
    // The name is kept until the page is closed.
  }
}

/** The field for the name, next to what waits for an answer. */
export function signature() {
  const field = h('input', { id: 'answer-name', autocomplete: 'name', maxlength: '80', placeholder: 'no name', value: answerName() });
  field.addEventListener('input', () => keepName(field.value.trim()));
  return h('p', { class: 'signature' }, h('label', { for: 'answer-name' }, 'Your name in the record'), field);
}
