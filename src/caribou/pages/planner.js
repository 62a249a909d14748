"use strict";
/* The planner: controls in, figures and charts out. The formulas are in calculus.js. */
const Planner = (() => {
  const { figure, percent, element } = Page;
  const data = Page.data();
  const form = document.getElementById("controls");
  const byId = (id) => document.getElementById(id);
  const DEPTHS = [1, 2, 4, 8, 16, 32, 64, 128];
  const WHOLE = new Set(["hops", "nodes", "floor", "cap", "declared", "months", "trials", "t"]);
  const OPTIONAL = new Set(["floor", "cap", "declared"]);
  const NUMBERS = ["epsilon", "rate", "fpr", "delta", "hops", "contraction", "alpha1", "nodes", "floor", "cap", "declared", "degree", "homophily", "months", "trials", "t"];
  /* field: [least, most, rule in words]; the library's own rules, but for months, trials and K, which the page limits */
  const RULES = {
    epsilon: [2 ** -20, 40, "between 2^-20 and 40"], rate: [0.01, 99.99, "between 0.01 and 99.99"], fpr: [0.001, 99, "between 0.001 and 99"],
    delta: [1e-300, 0.999999, "in (0, 1)"], hops: [1, 10000, "from 1 to 10000"], contraction: [1e-6, 1, "in (0, 1]"], alpha1: [0, 1, "in [0, 1]"],
    nodes: [10, 1e9, "from 10 to 10^9"], floor: [0, 1e9, "at least 0"], cap: [1, 1e9, "at least 1"], declared: [1, 1e9, "at least 1"],
    degree: [0.1, 1e6, "above 0"], homophily: [0, 1, "in [0, 1]"], months: [1, 120, "from 1 to 120"], trials: [1, 1000, "from 1 to 1000"], t: [0, 1e9, "at least 0"],
  };

  // -- controls -----------------------------------------------------------------------------------------------------

  /** A number as it is written into a field or a command: short, and read back to the same value. */
  function plain(value) {
    const short = Number(value.toPrecision(12));
    return short !== 0 && Math.abs(short) < 1e-3 ? short.toExponential() : String(short);
  }

  function setSlider(name, value) {
    const slider = byId(`${name}-slider`);
    if (slider) slider.value = "log" in slider.dataset ? Math.log10(Math.max(value, 1e-300)) : value;
  }

  function fromSlider(name) {
    const slider = byId(`${name}-slider`), raw = Number(slider.value);
    if (!("log" in slider.dataset)) return raw;
    const value = Number((10 ** raw).toPrecision(raw < 0 && name === "delta" ? 1 : 3));
    return WHOLE.has(name) ? Math.round(value) : value;
  }

  /** Put settings into the controls. */
  function fill(settings) {
    for (const name of ["unit", "goal"]) byId(`${name}-${settings[name]}`).checked = true;
    methods(settings.unit, settings.method);
    for (const name of NUMBERS) {
      byId(name).value = settings[name] === null ? "" : plain(settings[name]);
      if (settings[name] !== null) setSlider(name, settings[name]);
    }
  }

  /** The methods of a unit, with the chosen one if it is among them. */
  function methods(unit, chosen) {
    const names = Object.keys(data.noise).filter((name) => data.units[name] === unit);
    byId("method").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    byId("method").value = names.includes(chosen) ? chosen : names[0];
  }

  /** What the controls say; the first field that breaks its rule is an error that names it. */
  function read() {
    const settings = { unit: form.elements.unit.value, goal: form.elements.goal.value, method: byId("method").value };
    let problem = null;
    for (const name of NUMBERS) {
      const input = byId(name), text = input.value.trim(), [low, high, rule] = RULES[name];
      settings[name] = text === "" ? null : Number(text);
      const fits = text === "" ? OPTIONAL.has(name) && !input.validity.badInput : Number.isFinite(settings[name]) && settings[name] >= low && settings[name] <= high;
      const good = fits && (text === "" || !WHOLE.has(name) || Number.isInteger(settings[name]));
      input.setAttribute("aria-invalid", String(!good));
      if (!good) problem ??= new RangeError(`${name} must be ${WHOLE.has(name) ? "a whole number " : ""}${rule}, got ${text || "nothing"}`);
    }
    if (problem) throw problem;
    return settings;
  }

  /** Show the controls that matter for unit and goal. */
  function arrange(unit, goal) {
    for (const part of document.querySelectorAll("[data-unit]")) part.hidden = part.dataset.unit !== unit;
    for (const part of document.querySelectorAll("[data-goal]")) part.hidden = part.dataset.goal !== goal;
    byId("node-part").hidden = unit !== "node";
  }

  // -- what follows from the settings -------------------------------------------------------------------------------

  /** Every figure of the page. */
  function results(s) {
    const kind = data.noise[s.method], gaussian = kind === "gaussian";
    const epsilon = s.goal === "epsilon" ? s.epsilon : Calculus.epsilonForRate({ tpr: s.rate / 100, fpr: s.fpr / 100, delta: s.delta, gaussian });
    const budget = { epsilon, delta: s.delta };
    const bounds = Calculus.declaredBounds(s.unit, s);
    const layer = { contraction: s.contraction, alpha1: s.alpha1, bounds };
    const sensitivity = Calculus.layerSensitivity(s.unit, layer);
    const mu = Calculus.gdpMu(epsilon, s.delta), release = gaussian ? { mu } : { epsilon };
    const depths = [...new Set([...DEPTHS, s.hops])].sort((a, b) => a - b);
    const rows = Calculus.planRows(budget, sensitivity, s.contraction, depths);
    return {
      kind, budget, bounds, layer, sensitivity, mu, release, rows,
      chosen: rows.find((row) => row.hops === s.hops),
      plans: Calculus.monthlyPlans(s.unit, budget, s.months),
      trial: Calculus.trialEpsilon(budget, s.trials, kind),
      node: s.unit === "node" ? Calculus.epsilonAtDegree(budget, layer, Math.min(s.t, s.nodes - 1)) : null,
      accuracy: expected(s, epsilon),
    };
  }

  // -- simulations --------------------------------------------------------------------------------------------------

  const near = (values, wanted) => values.reduce((best, v) => (Math.abs(v - wanted) < Math.abs(best - wanted) ? v : best));

  /** The simulated graph that is nearest to the declared one; null where nothing was simulated. */
  function nearest(s) {
    if (data.simulations.length === 0) return null;
    const homophily = near(data.simulations.map((p) => p.homophily), s.homophily);
    const degree = near(data.simulations.filter((p) => p.homophily === homophily).map((p) => p.average_degree), s.degree);
    const same = degree === s.degree && homophily === s.homophily && Math.min(s.nodes, data.largest) === data.simulated_nodes;
    return { homophily, degree, same, points: data.simulations.filter((p) => p.homophily === homophily && p.average_degree === degree && p.unit === s.unit) };
  }

  /** Accuracy of the method at this epsilon, between the simulated points; null outside of them. */
  function expected(s, epsilon) {
    const world = nearest(s), points = world === null ? [] : world.points.filter((p) => p.method === s.method).sort((a, b) => a.epsilon - b.epsilon);
    const right = points.findIndex((p) => p.epsilon >= epsilon);
    if (right < 0 || (right === 0 && points[0].epsilon !== epsilon)) return null;
    const a = points[Math.max(0, right - 1)], b = points[right];
    const share = a === b ? 0 : Math.log(epsilon / a.epsilon) / Math.log(b.epsilon / a.epsilon);
    const between = (key) => a[key] + share * (b[key] - a[key]);
    return { mean: between("mean"), low: between("low"), high: between("high") };
  }

  // -- showing ------------------------------------------------------------------------------------------------------

  const say = (id, text) => byId(id).replaceChildren(...Page.whole(text));

  /** A titled figure; its exact value stands in an attribute, for whoever compares. */
  function entry(name, title, text, value) {
    return element("div", {}, element("dt", {}, title), element("dd", { id: `out-${name}`, "data-value": String(value) }, text));
  }

  function showShort(s, r) {
    const one = Calculus.releaseRate(r.release, 0.01), two = Calculus.releaseRate(r.release, 0.01, 2);
    const accuracy = r.accuracy === null ? "not simulated" : percent(r.accuracy.mean);
    byId("figures").replaceChildren(
      entry("epsilon", "epsilon", figure(r.budget.epsilon), r.budget.epsilon),
      entry("mu", "mu of Gaussian noise", figure(r.mu), r.mu),
      entry("presence", "found at 1 % false alarms: is it there?", percent(one), one),
      entry("replacement", "… this one or that one?", percent(two), two),
      entry("accuracy", "expected accuracy (simulated)", accuracy, r.accuracy === null ? "" : r.accuracy.mean)
    );
    say("sentence", `${s.method} at epsilon = ${figure(r.budget.epsilon)}, delta = ${figure(r.budget.delta)} protects one ${s.unit}: an attacker with 1 % false alarms finds at most ` +
      `${figure(100 * one)} of 100. The release is ${r.kind === "pure" ? "pure epsilon-DP" : `mu-GDP with mu = ${figure(r.mu)}`}.`);
    say("unprotected", s.unit === "edge"
        ? "At edge level attributes and labels get no noise, and who is in the graph is public. It protects single edges, not people."
        : "At node level the number of nodes, the split and declared values are public.");
  }

  function showAttack(s, r) {
    const rates = [...Array(81).keys()].map((k) => 10 ** (-4 + k / 20));
    const { epsilon, delta } = r.budget;
    const line = (steps) => rates.map((fpr) => [fpr, Calculus.releaseRate(r.release, fpr, steps)]);
    const gaussian = r.kind === "pure"; // beside a pure release stands what Gaussian noise would allow, beside a Gaussian one any mechanism
    const other = rates.map((fpr) => [fpr, Calculus.attackRate({ epsilon, delta, fpr, gaussian })]);
    const marks = [1, 2].flatMap((steps) =>
      Calculus.FALSE_POSITIVE_RATES.map((fpr) => ({ x: fpr, y: Calculus.releaseRate(r.release, fpr, steps), text: percent(Calculus.releaseRate(r.release, fpr, steps)) }))
    );
    say("attack-words", r.kind === "pure"
        ? `${s.method} is pure epsilon-DP: at this epsilon that allows more than Gaussian noise of the same epsilon would.`
        : `${s.method} is made of Gaussian noise, which allows an attacker less than an arbitrary mechanism of the same epsilon and delta.`);
    Charts.line(byId("attack-chart"), {
      words: `Largest share that an attacker finds, by share of false alarms. ${marks.map((m) => `${percent(m.y)} at ${percent(m.x)}`).join("; ")}.`,
      x: { label: "false alarms", log: true, format: (v) => percent(v, 2) },
      y: { label: "found at most", from: 0, to: 1, format: (v) => percent(v, 2) },
      series: [
        { name: "is it there?", method: s.method, marker: "", points: line(1) },
        { name: "this one or that one?", method: s.method, marker: "", dash: "7 4", points: line(2) },
        { name: gaussian ? "Gaussian noise instead" : "any mechanism", colour: "var(--dim)", dash: "2 3", points: other },
        { name: "guessing", colour: "var(--control)", dash: "1 3", points: rates.map((fpr) => [fpr, fpr]) },
      ],
      marks,
    });
  }

  function showDepth(s, r) {
    const line = (key) => r.rows.map((row) => [row.hops, row[key] * r.sensitivity]);
    const saved = r.chosen.linear_gdp_noise_multiplier / r.chosen.noise_multiplier;
    byId("depth-figures").replaceChildren(
      entry("sensitivity", "sensitivity of one step", figure(r.sensitivity, 4), r.sensitivity),
      entry("kappa", `hops paid for, of K = ${s.hops}`, figure(r.chosen.kappa), r.chosen.kappa),
      entry("noise", "noise on every entry", figure(r.chosen.noise_std), r.chosen.noise_std),
      entry("linear", "… with linear composition", figure(r.chosen.linear_gdp_noise_multiplier * r.sensitivity), r.chosen.linear_gdp_noise_multiplier * r.sensitivity)
    );
    say("depth-words", `${s.hops} hop${s.hops === 1 ? "" : "s"} cost${s.hops === 1 ? "s" : ""} as much as ${figure(r.chosen.kappa)}. Linear composition needs ${figure(saved)} times the noise. ` +
      (data.settings[s.method]?.includes("contraction") ? "" : `${s.method} is no message passing of this kind: these figures are those of caribou-${s.unit === "edge" ? "edp" : "ndp"}.`));
    Charts.line(byId("depth-chart"), {
      words: `Noise against depth. At ${s.hops} hops: convergent ${figure(r.chosen.noise_std)}, linear ${figure(r.chosen.linear_gdp_noise_multiplier * r.sensitivity)}.`,
      x: { label: "hops K", log: true, ticks: DEPTHS },
      y: { label: "noise per entry", from: 0 },
      series: [
        { name: "linear, RDP", colour: "var(--dim)", dash: "2 3", marker: "v", points: line("linear_noise_multiplier") },
        { name: "linear, exact GDP", colour: "var(--dim)", dash: "7 4", marker: "D", points: line("linear_gdp_noise_multiplier") },
        { name: "convergent, RDP", method: "caribou", dash: "2 3", marker: "^", points: line("rdp_noise_multiplier") },
        { name: "convergent, exact", method: "caribou", points: line("noise_multiplier") },
      ],
      marks: [{ x: s.hops, y: r.chosen.noise_std, text: figure(r.chosen.noise_std) }],
    });
  }

  function showNode(s, r) {
    if (s.unit === "edge") {
      say("node-words", "At edge level the promise is about one edge, the same for all. It says nothing about a person with all their edges: choose one node for that.");
      return;
    }
    const t = Math.min(s.t, s.nodes - 1), covered = r.bounds.covered;
    const between = [...Array(25).keys()].map((k) => Math.round((s.nodes - 1) ** (k / 24)));
    const degrees = [...new Set([...Calculus.curveDegrees(s.nodes, covered), ...between])].filter((d) => d >= 1).sort((a, b) => a - b);
    const points = degrees.map((d) => [d, Calculus.epsilonAtDegree(r.budget, r.layer, d)]);
    const words = `A node with ${t} neighbours gets epsilon = ${figure(r.node)}`;
    byId("node-words").replaceChildren(
      words, ". ",
      covered >= s.nodes - 1 ? "The headline covers every node." : `The headline, ${figure(r.budget.epsilon)}, holds up to degree ${covered}; a node beyond gets what the line says.`,
      element("span", { id: "out-node", "data-value": String(r.node), hidden: "" })
    );
    Charts.line(byId("node-chart"), {
      words: `Epsilon of a node by its degree. ${words}.`,
      x: { label: "neighbours t", log: true, from: 1 },
      y: { label: "epsilon", from: 0 },
      series: [{ name: "message passing", method: "caribou", marker: "", points }],
      rules: covered < s.nodes - 1 ? [{ x: Math.max(1, covered), text: `headline up to ${covered}` }] : [],
      marks: [{ x: Math.max(1, t), y: r.node, text: `t = ${t}: ${figure(r.node)}` }],
    });
  }

  /* by way: [name in the chart, look]; colours are those of the methods that go this way */
  const WAYS = {
    "fit once, extend": ["fit once, extend", { method: "votes" }],
    "fit once, predict from own features": ["fit once, own features", { method: "mlp" }],
    "fit anew, pure noise": ["fit anew, pure", { method: "votes", dash: "7 4", marker: "s" }],
    "fit anew, Gaussian noise": ["fit anew, Gaussian", { method: "caribou", marker: "D" }],
    "fit once, predict with a small epsilon, pure noise": ["predict small, pure", { method: "votes", dash: "2 3", marker: "v" }],
    "fit once, predict with a small epsilon, Gaussian noise": ["predict small, Gaussian", { method: "caribou", dash: "2 3", marker: "^" }],
  };

  function showYear(s, r) {
    const months = [...Array(s.months).keys()].map((k) => k + 1);
    const spent = (plan) => months.map((m) => [m, Calculus.totalEpsilon(plan.releases.slice(0, m), r.budget)]);
    say("year-words", `A budget of epsilon = ${figure(r.budget.epsilon)} for ${s.months} month${s.months === 1 ? "" : "s"}. ` +
      (s.unit === "edge" ? "votes-edp can be extended to new nodes for nothing more; a fit of any kind that is repeated pays again." : "mlp-dp predicts from a person's own features for nothing more; a fit that is repeated pays again."));
    Charts.line(byId("year-chart"), {
      words: `Epsilon spent over ${s.months} months by each way. ${r.plans.map((p) => `${p.way}: ${figure(p.first)} first, ${figure(p.later)} later`).join("; ")}.`,
      x: { label: "month", from: 1, to: Math.max(2, s.months), ticks: months.filter((m) => m === 1 || m % Math.ceil(s.months / 12) === 0) },
      y: { label: "epsilon spent", from: 0 },
      series: r.plans.map((plan) => ({ name: WAYS[plan.way][0], ...WAYS[plan.way][1], points: spent(plan) })),
      rules: [{ y: r.budget.epsilon, text: "budget" }],
    });
    const rows = r.plans.map((p) => [p.way, figure(p.first), p.later === 0 ? "nothing" : figure(p.later), figure(p.presence), figure(p.replacement)]);
    byId("year-table").replaceChildren(Page.table([["every month", "first", "later", "all: is it there?", "all: this or that?"], ...rows], "Epsilon of one release, and of all of them together"));
    byId("tune-words").replaceChildren(
      `Tuning on private data: a search of ${s.trials} trial${s.trials === 1 ? "" : "s"} within one release of the whole budget leaves epsilon = ${figure(r.trial)} to the trial that is kept (caribou tune). A search every month pays every month.`,
      element("span", { id: "out-trial", "data-value": String(r.trial), hidden: "" })
    );
  }

  function showAccuracy(s, r) {
    const world = nearest(s), chart = byId("accuracy-chart"), caption = byId("accuracy-caption");
    if (world === null) {
      say("accuracy-words", "This page was built without simulations (--seeds 0). The command below makes one with them.");
      chart.replaceChildren();
      caption.textContent = "";
      return;
    }
    const about = `${data.simulated_nodes} nodes, average degree ${figure(world.degree)}, homophily ${figure(world.homophily)}`;
    const here = r.accuracy === null ? `${s.method} was not simulated at this epsilon.` : `${s.method}: ${percent(r.accuracy.mean)} (${percent(r.accuracy.low)} to ${percent(r.accuracy.high)}) at epsilon = ${figure(r.budget.epsilon)}.`;
    say("accuracy-words", `${here} ${world.same ? "" : `Your graph was not simulated. The nearest that was has ${about}; the command below simulates yours.`}`);
    caption.textContent =
      `Test accuracy on generated graphs (contextual block model: ${about}, ${data.classes} classes, distance of class means in features ${figure(data.signal)} standard deviations), mean over ${data.seeds} ` +
      `graph${data.seeds === 1 ? "" : "s"} with its 95 % interval${data.seeds < 5 ? ", which is wide for so few (more: --seeds 10)" : ""}; every method with its default settings. Real graphs are no block models: this compares methods, and promises nothing.`;
    const names = [...new Set(world.points.map((p) => p.method))], epsilons = [...new Set(world.points.map((p) => p.epsilon))].sort((a, b) => a - b);
    const series = names.map((method) => {
      const points = world.points.filter((p) => p.method === method).sort((a, b) => a.epsilon - b.epsilon).map((p) => [p.epsilon, p.mean, p.low, p.high]);
      const flat = points.length === 1 ? epsilons.map((e) => [e, ...points[0].slice(1)]) : points;
      return { name: method === "mlp" || method === "mlp-dp" ? `${method} (features alone)` : method, method, points: flat };
    });
    Charts.line(chart, {
      words: `Simulated test accuracy against epsilon. ${here}`,
      x: { label: "epsilon", log: true, ticks: epsilons },
      y: { label: "test accuracy", from: 0, to: 1, format: (v) => percent(v, 3) },
      series,
      marks: r.accuracy === null ? [] : [{ x: r.budget.epsilon, y: r.accuracy.mean, text: "" }],
    });
  }

  // -- lines to take along ------------------------------------------------------------------------------------------

  /** [flag of the plan, argument in Python, value] of what was declared. */
  function declared(s) {
    const node = s.unit === "node";
    const all = [["contraction", s.contraction], ["alpha1", s.alpha1], ["degree_floor", s.floor], ["degree_cap", node ? s.cap : null], ["declared_degree", node ? s.declared : null], ["nodes", s.nodes]];
    return all.filter(([, value]) => value !== null);
  }

  /** Settings of the method, as `caribou train --set` and `cb.Model` take them. */
  function methodSettings(s) {
    const names = data.settings[s.method] ?? [], known = new Map([["hops", s.hops], ...declared(s)]);
    return names.filter((name) => known.has(name)).map((name) => [name, known.get(name)]);
  }

  function commands(s, r) {
    const byRate = s.goal === "rate" && r.kind === "gaussian", epsilon = plain(r.budget.epsilon), delta = plain(s.delta);
    const goal = byRate ? `--attack-rate ${plain(s.rate / 100)} --at-fpr ${plain(s.fpr / 100)}` : `--epsilon ${epsilon}`;
    const bounds = declared(s).map(([name, value]) => ` --${name.replaceAll("_", "-")} ${plain(value)}`).join("");
    const world = `--average-degree ${plain(s.degree)} --homophily ${plain(s.homophily)}`;
    const plan = `caribou plan --unit ${s.unit} ${goal} --delta ${delta} --hops ${s.hops}${bounds} --html plan.html --method ${s.method} --months ${s.months} ${world}`;
    const chosen = methodSettings(s);
    const sets = chosen.map(([name, value]) => ` --set ${name}=${plain(value)}`).join("");
    const csbm = `csbm:nodes=${s.nodes},average_degree=${plain(s.degree)},homophily=${plain(s.homophily)}`;
    const train = `caribou train ${s.method} --dataset ${csbm} --epsilon ${epsilon} --delta ${delta}${sets} --out run`;
    const kept = chosen.map(([name, value]) => `, ${name}=${plain(value)}`).join("");
    const planned = (byRate ? `attack_rate=${plain(s.rate / 100)}, at_fpr=${plain(s.fpr / 100)}` : `epsilon=${epsilon}`) + `, delta=${delta}, unit="${s.unit}", hops=[${s.hops}]`;
    const python = [
      "import caribou as cb", "",
      `plan = cb.plan(${planned}${declared(s).map(([name, value]) => `, ${name}=${plain(value)}`).join("")})`,
      "print(plan.rows[0].noise_std)",
      `graph = cb.datasets.load("csbm", nodes=${s.nodes}, average_degree=${plain(s.degree)}, homophily=${plain(s.homophily)})`,
      `model = cb.Model("${s.method}", cb.Budget(${epsilon}, ${delta}, "${s.unit}")${kept}).fit(graph)`,
      "print(model.certificate.attack_success)",
    ].join("\n");
    return { plan, train, python };
  }

  function showCommands(s, r) {
    const lines = commands(s, r);
    say("command-plan", lines.plan);
    say("command-train", lines.train);
    say("python", lines.python);
  }

  // -- together -----------------------------------------------------------------------------------------------------

  function update() {
    arrange(form.elements.unit.value, form.elements.goal.value);
    const problem = byId("problem");
    try {
      const s = read(), r = results(s);
      problem.hidden = true;
      for (const show of [showShort, showAttack, showDepth, showNode, showYear, showAccuracy, showCommands]) show(s, r);
      document.body.dataset.updates = Number(document.body.dataset.updates ?? 0) + 1;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problem.textContent = `${error.message}. The figures below are those before.`;
      problem.hidden = false;
    }
  }

  let waiting = false;
  /** Once per frame, however fast a slider moves. */
  function soon() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      update();
    });
  }

  function changed(event) {
    const name = event.target.id;
    if (name.endsWith("-slider")) byId(name.slice(0, -7)).value = plain(fromSlider(name.slice(0, -7)));
    else if (NUMBERS.includes(name) && event.target.value !== "") setSlider(name, Number(event.target.value));
    if (event.target.name === "unit") methods(event.target.value, byId("method").value.replace(/-.*/, event.target.value === "edge" ? "-edp" : "-ndp"));
    soon();
  }

  function start() {
    fill(data.first);
    document.addEventListener("input", changed);
    form.addEventListener("submit", (event) => event.preventDefault());
    byId("reset").addEventListener("click", () => {
      fill(data.first);
      update();
    });
    for (const [place, label, source] of [["copy-plan", "Copy the command", "command-plan"], ["copy-train", "Copy the command", "command-train"], ["copy-python", "Copy the lines", "python"]])
      byId(place).append(Page.copyButton(label, () => byId(source).textContent));
    update();
  }

  return { start, read, results };
})();
Planner.start();
