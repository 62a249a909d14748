"use strict";
/* The planner: positions of the controls in, figures of the tables out (caribou.pages.grid). No figure is computed here. */
(() => {
  const { figure, percent, element } = Page;
  const data = Page.data(), byId = (id) => document.getElementById(id), form = byId("controls");
  const SLIDERS = Object.keys(data.positions);
  const say = (id, text) => byId(id).replaceChildren(text);
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  // -- controls -----------------------------------------------------------------------------------------------------

  /** Where the controls stand, and everything that the tables hold there. */
  function looked() {
    const at = Object.fromEntries(SLIDERS.map((name) => [name, Number(byId(name).value)]));
    const unit = form.elements.unit.value, list = byId(`method-${unit}`), choice = Number(byId(`bounds-${unit}`).value);
    const method = list.options[list.selectedIndex].text, [, kind, settings] = data.methods[method];
    const layer = data.layers[unit][choice][at.contraction], budget = data.budgets[at.epsilon];
    const value = Object.fromEntries(SLIDERS.map((name) => [name, data.positions[name][at[name]]]));
    return {
      at, unit, method, kind, settings, layer, budget, ...value, bounds: data.bounds[unit][choice],
      attack: budget.attack[kind], noise: layer.noise[at.epsilon], ways: budget.months[unit][at.months],
      node: layer.by_degree?.[at.epsilon],
    };
  }

  /** The largest epsilon at which an attacker finds no more than what was asked for. */
  function byRate() {
    const { kind } = looked(), wanted = Number(byId("rate").value) / 100;
    const kept = data.budgets.findLastIndex((budget) => budget.attack[kind].stated.presence["0.01"] <= wanted);
    byId("epsilon").value = Math.max(0, kept);
    say("rate-hint", kept < 0 ? "No epsilon of this page is so small: this is its smallest." : "Takes the largest epsilon of this page that keeps it.");
  }

  // -- showing ------------------------------------------------------------------------------------------------------

  /** A titled figure; its value stands in an attribute, for whoever compares. */
  function entry(name, title, value, text = figure(value)) {
    return element("div", {}, element("dt", {}, title), element("dd", { id: `out-${name}`, "data-value": String(value ?? "") }, text));
  }

  function showControls(s) {
    for (const part of document.querySelectorAll("[data-unit]")) part.hidden = part.dataset.unit !== s.unit;
    for (const name of SLIDERS) {
      byId(`${name}-shown`).textContent = figure(s[name], 6);
      byId(name).setAttribute("aria-valuetext", figure(s[name], 6));
    }
    if (document.activeElement !== byId("rate")) byId("rate").value = figure(100 * s.attack.stated.presence["0.01"]);
  }

  function showShort(s) {
    const one = s.attack.stated.presence["0.01"], two = s.attack.stated.replacement["0.01"];
    byId("figures").replaceChildren(
      entry("epsilon", "epsilon", s.epsilon),
      entry("mu", "mu of Gaussian noise", s.budget.mu),
      entry("presence", "found at 1 % false alarms: is it there?", one, percent(one)),
      entry("replacement", "… this one or that one?", two, percent(two))
    );
    say("sentence", `${s.method} at epsilon = ${figure(s.epsilon)}, delta = ${figure(data.delta)} protects one ${s.unit}: an attacker with 1 % false alarms finds at most ` +
      `${figure(100 * one)} of 100. The release is ${s.kind === "pure" ? "pure epsilon-DP" : `mu-GDP with mu = ${figure(s.budget.mu)}`}.`);
  }

  function showAttack(s) {
    const line = (found) => data.rates.map((rate, k) => [rate, found[k]]);
    const { presence, replacement, other, stated } = s.attack;
    const marks = Object.values(stated).flatMap((found) => Object.entries(found).map(([rate, share]) => [Number(rate), share]));
    say("attack-words", s.kind === "pure"
        ? `${s.method} is pure epsilon-DP: at this epsilon that allows more than Gaussian noise of the same epsilon would.`
        : `${s.method} is made of Gaussian noise, which allows an attacker less than an arbitrary mechanism of the same epsilon and delta.`);
    Charts.line(byId("attack-chart"), {
      words: `Largest share that an attacker finds, by share of false alarms. ${marks.map(([x, y]) => `${percent(y)} at ${percent(x)}`).join("; ")}.`,
      x: { label: "false alarms", log: true, ticks: [0.001, 0.01, 0.1, 1], format: (v) => percent(v, 2) },
      y: { label: "found at most", from: 0, to: 1, format: (v) => percent(v, 2) },
      series: [
        { name: "is it there?", method: s.method, marker: "", points: line(presence) },
        { name: "this one or that one?", method: s.method, marker: "", dash: "7 4", points: line(replacement) },
        { name: s.kind === "pure" ? "Gaussian noise instead" : "any mechanism", colour: "var(--dim)", dash: "2 3", points: line(other) },
        { name: "guessing", colour: "var(--control)", dash: "1 3", points: line(data.rates) },
      ],
      marks,
    });
  }

  function showDepth(s) {
    const [exact, linear, convergentRenyi, linearRenyi] = s.noise, ours = exact[s.at.hops], theirs = linear[s.at.hops], kappa = s.layer.kappa[s.at.hops];
    const line = (found) => data.positions.hops.map((hops, k) => [hops, found[k]]);
    byId("depth-figures").replaceChildren(
      entry("sensitivity", "sensitivity of one step", s.layer.sensitivity, figure(s.layer.sensitivity, 4)),
      entry("kappa", `hops paid for, of K = ${s.hops}`, kappa),
      entry("noise", "noise on every entry", ours),
      entry("linear", "… with linear composition", theirs)
    );
    say("depth-words", `${plural(s.hops, "hop")} cost${s.hops === 1 ? "s" : ""} as much as ${figure(kappa)}. ` +
      (s.settings.includes("contraction") ? "" : `${s.method} is no message passing of this kind: these figures are those of caribou-${s.unit === "edge" ? "edp" : "ndp"}.`));
    Charts.line(byId("depth-chart"), {
      words: `Noise against depth. At ${plural(s.hops, "hop")}: convergent ${figure(ours)}, linear ${figure(theirs)}.`,
      x: { label: "hops K", log: true, ticks: data.positions.hops },
      y: { label: "noise per entry", from: 0 },
      series: [
        { name: "linear, RDP", colour: "var(--dim)", dash: "2 3", marker: "v", points: line(linearRenyi) },
        { name: "linear, exact GDP", colour: "var(--dim)", dash: "7 4", marker: "D", points: line(linear) },
        { name: "convergent, RDP", method: "caribou", dash: "2 3", marker: "^", points: line(convergentRenyi) },
        { name: "convergent, exact", method: "caribou", points: line(exact) },
      ],
      marks: [[s.hops, ours]],
    });
  }

  function showNode(s) {
    if (s.unit === "edge") {
      say("node-words", "At edge level the promise is about one edge, the same for all. It says nothing about a person with all their edges: choose one node for that.");
      return;
    }
    const words = `A node with ${plural(s.t, "neighbour")} gets epsilon = ${figure(s.node[s.at.t])}`, all = s.bounds.covered >= data.nodes - 1;
    byId("node-words").replaceChildren(
      `${words}. ${all ? "The headline covers every node." : `The headline, ${figure(s.epsilon)}, holds up to degree ${s.bounds.covered}; a node beyond gets what the line says.`}`,
      element("span", { id: "out-node", "data-value": String(s.node[s.at.t]), hidden: "" })
    );
    Charts.line(byId("node-chart"), {
      words: `Epsilon of a node by its degree. ${words}.`,
      x: { label: "neighbours t", log: true },
      y: { label: "epsilon", from: 0 },
      series: [{ name: "message passing", method: "caribou", points: data.degrees.map((degree, k) => [degree, s.node[k]]).filter(([degree]) => degree > 0) }],
      rules: all ? [] : [{ x: s.bounds.covered, text: `headline up to ${s.bounds.covered}` }],
      marks: s.t > 0 ? [[s.t, s.node[s.at.t]]] : [],
    });
  }

  function showYear(s) {
    say("year-words", `A budget of epsilon = ${figure(s.epsilon)} for ${plural(s.months, "month")}. ` +
      (s.unit === "edge" ? "votes-edp can be extended to new nodes for nothing more; a fit of any kind that is repeated pays again." : "mlp-dp predicts from a person's own features for nothing more; a fit that is repeated pays again."));
    const rows = s.ways.map(([way, first, later, ...all]) => [way, figure(first), later === 0 ? "nothing" : figure(later), ...all.map((value) => figure(value))]);
    byId("year-table").replaceChildren(Page.table([["every month", "first", "later", "all: is it there?", "all: this or that?"], ...rows], "Epsilon of one release, and of all of them together"));
  }

  // -- lines to take along ------------------------------------------------------------------------------------------

  function showCommands(s) {
    const declared = { contraction: s.contraction, alpha1: data.alpha1, ...s.bounds.given }, budget = `--epsilon ${s.epsilon} --delta ${data.delta}`;
    const flags = Object.entries({ ...declared, nodes: data.nodes }).map(([name, value]) => ` --${name.replaceAll("_", "-")} ${value}`).join("");
    const taken = Object.entries({ hops: s.hops, ...declared }).filter(([name]) => s.settings.includes(name)).map(([name, value]) => `${name}=${value}`);
    const bounds = Object.entries({ ...declared, nodes: data.nodes }).map(([name, value]) => `, ${name}=${value}`).join("");
    say("command-plan", `caribou plan --unit ${s.unit} ${budget} --hops ${s.hops}${flags} --html plan.html --method ${s.method} --months ${s.months}`);
    say("command-train", `caribou train ${s.method} --dataset csbm:nodes=${data.nodes} ${budget}${taken.map((setting) => ` --set ${setting}`).join("")} --out run`);
    say("python", [
      "import caribou as cb", "",
      `plan = cb.plan(epsilon=${s.epsilon}, delta=${data.delta}, unit="${s.unit}", hops=[${s.hops}]${bounds})`,
      "print(plan.rows[0].noise_std)",
      `graph = cb.datasets.load("csbm", nodes=${data.nodes})`,
      `model = cb.Model("${s.method}", cb.Budget(${s.epsilon}, ${data.delta}, "${s.unit}")${taken.map((setting) => `, ${setting}`).join("")}).fit(graph)`,
      "print(model.certificate.attack_success)",
    ].join("\n"));
  }

  function update() {
    const s = looked();
    for (const show of [showControls, showShort, showAttack, showDepth, showNode, showYear, showCommands]) show(s);
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => requestAnimationFrame(update)); // when the controls are back
  document.addEventListener("input", ({ target }) => {
    if (target.id === "rate") byRate();
    requestAnimationFrame(update);
  });
  byId("rate").addEventListener("blur", update);
  for (const place of document.querySelectorAll("[data-copy]")) place.append(Page.copyButton("Copy", () => byId(place.dataset.copy).textContent));
  update();
})();
