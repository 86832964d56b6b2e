// What the parts of the page share: elements, texts and times.

export const byId = (id) => document.getElementById(id);

export function el(name, text) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  return e;
}

export function span(text, className = "") {
  const e = el("span", text);
  e.className = className;
  return e;
}

// put sets the text of an element, if it is another: a selection stays otherwise.
export function put(e, text) {
  text = String(text);
  if (e.textContent !== text) e.textContent = text;
}

// keyed makes the children of an element those of a list of [key, what], in its order.
// Elements are kept as long as their keys are there, so that the focus stays.
export function keyed(parent, list, make, update) {
  const old = new Map([...parent.children].map((c) => [c.dataset.key ?? c.value, c]));
  let at = parent.firstElementChild;
  for (const [key, what] of list) {
    let e = old.get(key);
    old.delete(key);
    if (!e) {
      e = make(key, what);
      e.dataset.key = key;
    }
    if (e === at) at = at.nextElementSibling;
    else parent.insertBefore(e, at);
    update(e, what);
  }
  for (const e of old.values()) e.remove();
}

// visible shows characters that would steer the text, or are not seen, as their codes:
// an owner is to look like nothing but what it is.
export function visible(text) {
  return String(text ?? "").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

export const noun = (n, one, many = one + "s") => (n === 1 ? one : many);
export const count = (n, one, many) => `${n.toLocaleString("en")} ${noun(n, one, many)}`;

// ago is a time in milliseconds, in two digits or so.
export function ago(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 0.0095) return `${(s * 1000).toFixed(1)} ms`;
  if (s < 0.9995) return `${(s * 1000).toFixed(0)} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 119.5) return `${s.toFixed(0)} s`;
  if (s < 5940) return `${(s / 60).toFixed(0)} min`;
  if (s < 172800) return `${(s / 3600).toFixed(s < 36000 ? 1 : 0)} h`;
  return `${(s / 86400).toFixed(0)} d`;
}

export const clock = (time) => new Date(time).toISOString().slice(11, 19) + " UTC";
export const dateTime = (time) => new Date(time).toISOString().replace("T", " ").replace(/\.?\d*Z$/, " UTC");
