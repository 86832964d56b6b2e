// The rows of the table of locks, and the queue of one.
import { ago, count, dateTime, el, put, span, visible } from "./dom.js";

// narrow is a window in which two of the columns are left out.
const narrow = matchMedia("(max-width: 760px)");

// old is after how many milliseconds what was read is shown as stale: grey and dated. Leases are
// renewed each third of their TTL, so what is left of one is counted down for no longer.
export const old = 15000;
const young = 5000;

// leaseNow is what is known of an entry's lease, so long after it was read.
function leaseNow(e, age) {
  const due = e.ttl_ms / 3;
  const ended = e.state === "expired";
  const left = e.left_ms - (ended ? age : Math.min(age, due));
  const stale = age > Math.min(old, Math.max(young, due)) || (!ended && left <= 0);
  return { stale, ended, left: stale ? e.left_ms : left };
}

// whole has a cell go over all columns that there are.
const whole = (cell) => { cell.colSpan = narrow.matches ? 4 : 6; };
narrow.addEventListener("change", () => document.querySelectorAll("tr.group th, tr.detail > td").forEach(whole));

// row makes a row, with a function update and, if it has a bar, one tick.
export function row(what, toggle) {
  const tr = el("tr");
  if (what.group !== undefined) return groupRow(tr);
  if (what.detail) return detailRow(tr);
  const name = el("td"), state = el("td"), holder = el("td"), queue = el("td"), token = el("td"), left = el("td");
  const button = el("button"), below = span("", "below");
  button.type = "button";
  button.className = "open";
  button.onclick = toggle;
  name.append(button, below);
  const badge = span("", "badge");
  state.append(badge);
  const who = span("", "clamp");
  holder.append(who);
  holder.className = "holder";
  queue.className = "number";
  token.className = "token";
  const bar = lease();
  left.append(bar);
  tr.append(name, state, holder, queue, token, left);
  let age = () => 0;
  tr.update = ({ lock, several, at, open }) => {
    age = (now) => lock.age_ms + now - at;
    put(button, (several ? lock.root + "/" : "") + visible(lock.name));
    button.title = visible(lock.name);
    button.setAttribute("aria-expanded", open);
    badge.dataset.state = lock.state;
    put(badge, lock.state);
    const first = lock.entries[0];
    put(who, holderText(lock, first));
    who.title = who.textContent;
    put(below, who.textContent);
    put(queue, lock.waiting ? lock.waiting.toLocaleString("en") : "");
    put(token, first?.in ? first.token : "");
    bar.update(first);
    tr.tick(performance.now());
  };
  tr.tick = (now) => tr.classList.toggle("stale", bar.tick(age(now)) || age(now) > old);
  return tr;
}

// holderText names the holder of the lock.
function holderText(lock, first) {
  if (!first) return "";
  if (!first.owner) return first.state !== "foreign" ? "" : first.session ? `another library's, session ${first.session}` : "another library's, of no session: it stays until it is deleted";
  const more = lock.held > 1 ? `, and ${lock.held - 1} more` : "";
  const of = lock.permits ? ` of ${lock.permits}` : "";
  return `${visible(first.owner)} ${at(first)}${first.detached ? " (detached)" : ""}${more}${more ? of : ""}`;
}

// at is the machine and process of an entry, but for what its owner says anyway.
function at(e) {
  const host = visible(e.host);
  if (host && e.owner.includes(host)) return e.pid && !e.owner.includes(String(e.pid)) ? `#${e.pid}` : "";
  return [host && `on ${host}`, e.pid && `#${e.pid}`].filter(Boolean).join(" ");
}

// lease makes a bar of the time that is left.
function lease() {
  const box = el("div"), bar = el("i"), text = el("span");
  box.className = "lease";
  box.append(bar, text);
  let entry;
  box.update = (e) => {
    entry = e;
    box.hidden = !e || e.ttl_ms === undefined;
  };
  // tick shows the lease, and reports whether what is known of it is stale.
  box.tick = (age) => {
    if (box.hidden) return false;
    if (entry.left_ms === undefined) {
      put(text, "unknown");
      bar.style.setProperty("--part", 0);
      return false;
    }
    const { stale, ended, left } = leaseNow(entry, age), part = Math.min(1, Math.max(0, left / entry.ttl_ms));
    box.dataset.level = stale ? "stale" : ended ? "bad" : part < 0.34 ? "warn" : "";
    bar.style.setProperty("--part", ended ? 0 : part.toFixed(3));
    put(text, ended ? `\u2212${ago(-left)}` : ago(left));
    box.title = `lease of ${ago(entry.ttl_ms)}${stale ? `, as it was ${ago(age)} ago` : ""}`;
    return stale;
  };
  return box;
}

function groupRow(tr) {
  const th = el("th"), note = span("");
  tr.className = "group";
  th.scope = "rowgroup";
  th.append(el("bdi"), note);
  tr.append(th);
  tr.update = ({ group, counts, policy }) => {
    whole(th);
    put(th.firstChild, visible(group));
    const parts = [];
    if (policy) parts.push(policy.match);
    if (counts) parts.push(count(counts.locks, "lock"), `${counts.held.toLocaleString("en")} held`, `${counts.waiting.toLocaleString("en")} waiting`);
    put(note, parts.join(", "));
  };
  return tr;
}

function detailRow(tr) {
  const td = el("td", "Asking for its queue");
  tr.className = "detail";
  tr.append(td);
  tr.update = () => whole(td);
  return tr;
}

// detail shows a lock's queue.
export function detail(cell, lock) {
  const head = el("div");
  const kind = [lock.kind || "unknown kind", lock.permits ? count(lock.permits, "permit") : "", `policy ${lock.policy}`, `${count(lock.held, "entry", "entries")} in`, lock.expired ? `${lock.expired} expired` : "", `${lock.waiting} waiting`];
  head.append(span(kind.filter(Boolean).join(", "), "sub"));
  const table = el("table"), body = el("tbody"), top = el("tr");
  for (const title of ["", "Owner", "Where", "State", "Token", "Time left", "Has it since"]) {
    const th = el("th", title);
    th.scope = "col";
    top.append(th);
  }
  const header = el("thead");
  header.append(top);
  lock.entries.forEach((e, i) => {
    const tr = el("tr");
    const left = e.left_ms === undefined ? "" : e.left_ms < 0 ? `expired ${ago(-e.left_ms)} ago` : `${ago(e.left_ms)} of ${ago(e.ttl_ms)}`;
    for (const text of [e.in ? "in" : `${i + 1}.`, visible(e.owner) || "not Holdfast's", [visible(e.host), e.pid && `#${e.pid}`].filter(Boolean).join(" "), [e.state, e.role].filter(Boolean).join(", "), e.token, left, e.acquired_at ? dateTime(e.acquired_at) : ""]) tr.append(el("td", text));
    tr.children[4].className = "mono";
    body.append(tr);
    if (e.asked) {
      const asked = el("tr"), td = el("td", `asked to release it by ${visible(e.asked.owner)}${e.asked.host ? ` (host ${visible(e.asked.host)}, pid ${e.asked.pid})` : ""} at ${dateTime(e.asked.at)}${e.asked.reason ? `: ${visible(e.asked.reason)}` : ""}`);
      td.colSpan = 6;
      td.className = "sub asked";
      asked.append(el("td"), td);
      body.append(asked);
    }
    if (e.metadata) {
      const meta = el("tr"), td = el("td", Object.entries(e.metadata).map(([k, v]) => `${visible(k)}=${visible(v)}`).join("  "));
      td.colSpan = 6;
      td.className = "sub mono";
      meta.append(el("td"), td);
      body.append(meta);
    }
  });
  table.append(header, body);
  const wide = el("div");
  wide.className = "wide";
  wide.append(table);
  const more = lock.held + lock.expired + lock.waiting - lock.entries.length;
  cell.replaceChildren(head, ...(lock.entries.length ? [wide] : []), ...(more > 0 ? [span(`and ${count(more, "more entry", "more entries")}`, "sub")] : []));
}
