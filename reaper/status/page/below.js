// What stands below the locks: the history of sweeps, the policies, sessions and clocks.
import { ago, byId, clock, count, dateTime, el, keyed, put, span, visible } from "./dom.js";

// charts shows the last sweeps of each root: how long they took, and what they deleted.
export function charts(parent, status) {
  keyed(parent, status.roots.map((r) => [r.label, r]), () => chart(), (c, r) => c.update(r, status.roots.length > 1));
}

function chart() {
  const box = el("div"), title = el("h3"), plot = el("div"), none = el("p", "There was no sweep yet.");
  const took = columns(), deleted = columns(), times = el("div");
  const more = el("details"), body = el("tbody");
  box.className = "chart";
  plot.className = "plot";
  times.className = "times";
  none.className = "sub";
  times.append(el("span"), el("span"));
  const legend = el("div");
  legend.className = "sub";
  legend.append(span("purged entries", "key"), span("pruned nodes", "key second"), span("incomplete sweep", "key bad"));
  plot.append(took.axis, took.list, deleted.axis, deleted.list, times);
  more.append(el("summary", "As a table"), table(["Began", "Took", "Schedule", "Locks", "Live", "Purged", "Pruned", "Result"], body));
  box.append(title, none, plot, legend, more);
  box.update = (root, several) => {
    put(title, several ? root.label : "");
    title.hidden = !several;
    const all = root.reports.slice(-60);
    none.hidden = all.length > 0;
    plot.hidden = legend.hidden = more.hidden = all.length === 0;
    if (!all.length) return;
    const one = (r) => `${clock(r.started)}: ${ago(r.seconds * 1000)}, ${count(r.total.locks, "lock")}, ${r.total.purged} purged, ${r.total.pruned} pruned${outcome(r) === "complete" ? "" : ", " + outcome(r)}`;
    took.update(all, "took", (r) => [r.seconds], (n) => ago(n * 1000), one);
    deleted.update(all, "deleted", (r) => [r.total.purged, r.total.pruned], (n) => n.toLocaleString("en"), one);
    put(times.firstChild, clock(all[0].started));
    put(times.lastChild, all.length > 1 ? clock(all[all.length - 1].started) : "");
    if (!more.open) return;
    keyed(body, all.toReversed().map((r) => [r.started + (r.schedule || ""), r]), () => cells(8), (tr, r) =>
      fill(tr, [dateTime(r.started), ago(r.seconds * 1000), r.schedule || "", r.total.locks, r.total.live, r.total.purged, r.total.pruned, outcome(r)]));
  };
  let latest;
  const update = box.update;
  box.update = (root, several) => update((latest = root), several);
  more.addEventListener("toggle", () => latest && update(latest, !title.hidden));
  return box;
}

const outcome = (r) => (r.skipped ? "skipped: " + r.skipped : r.complete ? "complete" : "incomplete: " + visible(r.error || ""));

// columns makes a row of columns with its axis. Each sweep has one, of one or two parts.
function columns() {
  const axis = el("div"), list = el("ol");
  axis.className = "axis";
  axis.append(el("span"), el("span"));
  list.className = "columns";
  return {
    axis,
    list,
    update(all, title, values, unit, text) {
      const most = Math.max(...all.map((r) => values(r).reduce((a, b) => a + b, 0)));
      put(axis.firstChild, most ? unit(most) : "0");
      put(axis.lastChild, title);
      list.setAttribute("aria-label", `${title}, of the last ${all.length} sweeps`);
      keyed(list, all.map((r, i) => [r.started + (r.schedule || "") + i, r]), () => el("li"), (li, r) => {
        li.title = text(r);
        li.setAttribute("aria-label", li.title);
        li.dataset.level = r.complete || r.skipped ? "" : "bad";
        values(r).toReversed().forEach((v, i, parts) => {
          const b = li.children[i] || li.appendChild(el("b"));
          b.className = parts.length > 1 && i === 0 ? "second" : "";
          b.style.setProperty("--part", most ? (v / most).toFixed(4) : 0);
        });
      });
    },
  };
}

// policies shows what the last sweep found of each policy's locks.
export function policies(body, status) {
  const list = [];
  for (const r of status.roots)
    for (const p of r.policies) list.push([`${r.label} ${p.name}`, { r, p, plan: r.schedules.find((s) => s.policies.includes(p.name)) }]);
  const began = list.map(([, { p }]) => Date.parse(p.last_began)).filter(Boolean);
  const lost = status.roots.some((r) => !r.session.connected);
  put(byId("found"), began.length ? `by the last sweep, ${ago(Date.parse(status.now) - Math.max(...began))} ago` : status.roots.every((r) => r.state === "standby") ? "what sweeps find, the active reaper tells" : "no sweep was complete yet");
  body.classList.toggle("stale", lost);
  keyed(body, list, () => { const tr = cells(13); tr.children[0].className = "name"; for (let i = 5; i < 13; i++) tr.children[i].className = "number"; return tr; }, (tr, { r, p, plan }) => {
    const c = p.last || {};
    const n = (v) => (v === undefined ? "" : v.toLocaleString("en"));
    const wait = Date.parse(plan?.next) - Date.parse(status.now);
    const next = plan?.running ? "now" : wait > 0 ? `in ${ago(wait)}` : plan?.next ? "due" : "";
    fill(tr, [`${status.roots.length > 1 ? r.label + " " : ""}${p.name} (${p.match})`, ago(p.ttl_seconds * 1000), ago(p.grace_seconds * 1000), plan?.schedule || "", next, n(c.locks), n(c.live), n(c.expired), n(c.purged), n(c.pruned), n(c.foreign), n(c.undecodable), n(c.denied)]);
    tr.children[11].dataset.level = c.undecodable ? "warn" : "";
    tr.children[12].dataset.level = c.denied ? "warn" : "";
  });
}

// shards shows the groups of shards that the last sweeps have found.
export function shards(section, status) {
  const list = status.roots.flatMap((r) => r.shard_groups.map((g) => [`${r.label} ${g.name}`, { r, g }]));
  const more = status.roots.reduce((n, r) => n + r.shard_groups_found, 0) - list.length;
  section.hidden = list.length === 0;
  keyed(section.querySelector("tbody"), list, () => { const tr = cells(6); tr.children[0].className = "name"; for (let i = 1; i < 5; i++) tr.children[i].className = "number"; return tr; }, (tr, { r, g }) => {
    const now = Date.parse(r.clock.known ? r.clock.latest : status.now);
    fill(tr, [(status.roots.length > 1 ? r.label + " " : "") + g.name, g.shards, g.members, g.unowned, g.moving, g.planned ? `${ago(now - Date.parse(g.planned))} ago` : "no plan"]);
    tr.children[3].dataset.level = g.unowned ? "warn" : "";
  });
  put(byId("more-groups"), `and ${count(more, "more group")}`);
  byId("more-groups").hidden = more <= 0;
}

// leaderName names the active reaper.
export const leaderName = (l) => `${visible(l.owner) || "another library's entry"}${l.host ? ` (host ${visible(l.host)}, pid ${l.pid})` : ""}${l.self ? ", this one" : ""}`;

// facts shows the session and the clock of each root.
export function facts(parent, status) {
  keyed(parent, status.roots.map((r) => [r.label, r]), () => { const d = el("div"), dl = el("dl"); dl.className = "facts"; d.append(el("h3"), dl); return d; }, (d, r) => {
    put(d.firstChild, status.roots.length > 1 ? r.label : "");
    d.firstChild.hidden = status.roots.length < 2;
    const now = Date.parse(status.now), c = r.clock, s = r.session;
    const l = r.leader;
    const list = [
      ["Session", `${s.connected ? "up" : "lost"} for ${ago(now - Date.parse(s.since))}${s.id ? `, ${s.id}` : ""}`],
      ["Sessions lost", s.losses ? `${s.losses}, away for ${ago(s.away_seconds * 1000)} in all` : "none"],
      ["Active reaper", l ? leaderName(l) : "unknown"],
      ["Its lease renewed", l?.ttl_seconds ? `${ago(l.lease_age_seconds * 1000)} ago, of ${ago(l.ttl_seconds * 1000)}` : "unknown"],
      ["Its last sweep", l?.swept ? `${ago(l.swept_seconds_ago * 1000)} ago` : "none known"],
      ["Reapers standing by", l ? String(l.standbys) : "unknown"],
      ["Leader's clock", c.known ? `${dateTime(c.latest)}, at most` : "not sampled yet"],
      ["Known within", c.known ? ago(c.window_seconds * 1000) : "unknown"],
      ["Ahead of this machine", c.known ? `${c.ahead_seconds < 0 ? "\u2212" : ""}${ago(Math.abs(c.ahead_seconds) * 1000)}` : "unknown"],
      ["Epoch", c.known ? `${c.epoch}, mark ${c.marked ? "seen" : "not looked at"}` : "unknown"],
      ["Term", c.known ? `from ${c.term}, ${dateTime(c.since)}` : "unknown"],
      ["Displacements", c.displacements ? `${c.displacements}, the last by ${c.displaced_seconds < 0 ? "\u2212" : "+"}${ago(Math.abs(c.displaced_seconds) * 1000)}, ${ago(c.displaced_ago_seconds * 1000)} ago` : "none seen"],
      ["Reaper", `${r.version || "unknown version"}, up ${ago(now - Date.parse(r.started))}`],
      ["Configuration", `${r.configuration || "defaults"}${r.reloads ? `, reloaded ${r.reloads}\u00d7` : ""}`],
    ];
    keyed(d.lastChild, list.map((f) => [f[0], f]), () => { const x = el("div"); x.append(el("dt"), el("dd")); return x; }, (x, [k, v]) => { put(x.firstChild, k); put(x.lastChild, v); });
  });
}

function cells(n) {
  const tr = el("tr");
  for (let i = 0; i < n; i++) tr.append(el("td"));
  return tr;
}

function fill(tr, texts) {
  texts.forEach((text, i) => put(tr.children[i], visible(text)));
}

function table(titles, body) {
  const box = el("div"), t = el("table"), head = el("thead"), tr = el("tr");
  box.className = "scroll";
  for (const title of titles) {
    const th = el("th", title);
    th.scope = "col";
    tr.append(th);
  }
  head.append(tr);
  t.append(head, body);
  box.append(t);
  return box;
}
