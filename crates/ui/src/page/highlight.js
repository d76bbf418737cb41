// The colours of YAML, line by line. They are a help for the eye: the server alone knows what a text means.

/** Lines beyond this length have no colours. */
const LONGEST = 2000;
const PARTS = /("(?:\\.|[^"\\])*"?|'(?:''|[^'])*'?)|((?:^|\s)#.*$)|((?:^|[\s[{,])[&*!][\w.-]+)|([{}[\],])|\b(true|false|null)\b|(?<![\w.-])(-?\d+(?:\.\d+)?)(?![\w.-])/g;
const CLASSES = ['string', 'comment', 'anchor', 'sign', 'word', 'number'];

/** The parts of a line: `[class, text]`, without a class for plain text. */
export function parts(line) {
  if (line.length > LONGEST) return [['', line]];
  const start = line.match(/^\s*(?:- +)*-?(?=\s|$)\s*|^\s*(?:- +)*/)[0];
  const found = [['sign', start]];
  let rest = line.slice(start.length);
  const key = rest.match(/^("[^"]*"|'[^']*'|[^\s#'"{}[\],:&*!|>%@`][^#:{}[\],"']*?)\s*:(?=\s|$)/);
  if (key) {
    found.push(['key', key[0]]);
    rest = rest.slice(key[0].length);
  }
  let at = 0;
  for (const match of rest.matchAll(PARTS)) {
    found.push(['', rest.slice(at, match.index)], [CLASSES[match.slice(1).findIndex(part => part !== undefined)], match[0]]);
    at = match.index + match[0].length;
  }
  found.push(['', rest.slice(at)]);
  return found.filter(([, text]) => text);
}
