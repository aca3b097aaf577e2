// The first view: |rUA| against TA of every method of a task, and its metrics side by side.

if (byId("overview-chart")) {
  const taskBox = byId("overview-task"),
    epochBox = byId("overview-epoch");
  const short = distinctNames(data.tasks.map((name) => ({ name })));
  taskBox.append(...data.tasks.map((task, k) => make("option", { value: task, text: short[k] })));
  byId("overview-task-label").hidden = data.tasks.length < 2;
  const chosen = new Set(data.side_by_side);
  const NARROW = 560;

  const results = () =>
    data.results.filter(
      (r) => r.task === taskBox.value && (r.main || (r.settings.model ?? "unlearned") !== "unlearned"),
    );
  const epoch = () => (epochBox.value === "last" ? "last" : Number(epochBox.value));
  /** A reference model has no epochs of unlearning. */
  const at = (run, name) =>
    valueAt(run, name, run.settings.model && run.settings.model !== "unlearned" ? "last" : epoch());
  let rows = [],
    table = null;

  function offerEpochs() {
    const found = new Set(
      results()
        .filter((r) => r.main)
        .flatMap((r) => r.epochs.filter((row) => row.scored).map((row) => row.epoch)),
    );
    epochBox.replaceChildren(
      make("option", { value: "last", text: "last" }),
      ...[...found].sort((a, b) => a - b).map((e) => make("option", { value: e, text: String(e) })),
    );
  }

  function regroup() {
    rows = grouped(results(), ["label", "moments"]);
    for (const row of rows) {
      row.label = shortLabel(row, rows);
      row.point = ["ta", "abs_rua"].map((name) => summary(row.runs.map((run) => at(run, name))));
    }
    byId("overview-note").textContent = leftOut();
    fill();
    cloud.update();
  }

  /** The label, with the moments only where another row has the same label. */
  function shortLabel(row, all) {
    const [label, moments] = row.values;
    const alike = all.filter((other) => other.values[0] === label);
    return alike.length > 1 && moments && moments !== "published" ? `${label} (${moments})` : label;
  }

  const text = (name, s) => {
    const about = data.metrics[name];
    const part = (value) => number(value, about.unit, about.decimals);
    return s.n === 0 ? "–" : s.std === null ? part(s.mean) : `${part(s.mean)} ± ${part(s.std)}`;
  };

  /** Mean and spread; on a phone below each other. */
  function cellOf(name, s) {
    const [mean, spread] = text(name, s).split(" ± ");
    return [
      make("span", { className: "value", text: mean, "data-metric": name, "data-mean": s.mean }),
      make("span", { className: "spread", text: spread ? ` ± ${spread}` : "" }),
    ];
  }

  function fill() {
    const names = Object.keys(data.metrics).filter((name) => chosen.has(name));
    const value = (row, name) => summary(row.runs.map((run) => at(run, name)));
    table = pagedTable({
      table: byId("side-table"),
      pager: byId("side-pager"),
      size: 60,
      text: (row) => row.label,
      columns: [
        { name: "Method", first: true, value: (row) => row.label, show: (row) => row.label },
        { name: "n", num: true, value: (row) => row.runs.length, show: (row) => String(row.runs.length) },
        ...names.map((name) => ({
          name: data.metrics[name].label,
          num: true,
          value: (row) => value(row, name).mean,
          show: (row) => cellOf(name, value(row, name)),
        })),
      ],
    });
    table.show(rows);
  }

  byId("side-metrics").append(
    ...Object.entries(data.metrics).map(([name, about]) =>
      make(
        "label",
        { title: about.about },
        make("input", {
          type: "checkbox",
          value: name,
          checked: chosen.has(name),
          onchange: (event) => {
            if (event.target.checked) chosen.add(name);
            else chosen.delete(name);
            fill();
          },
        }),
        about.label,
      ),
    ),
  );

  /** Points of TA that a method may lose against the best one before it is listed and not drawn. */
  const FAR = 15;
  const GRID = { left: 54, right: 24, top: 24, bottom: 48 };
  const measured = () => rows.filter((row) => row.point?.every((s) => s.n));

  /** The rows that are drawn: those that ruined the model would press the others together. */
  function shown() {
    const found = measured();
    const best = Math.max(...found.map((row) => row.point[0].mean));
    const near = found.filter((row) => row.reference || row.point[0].mean >= best - FAR);
    return near.filter((row) => !row.reference).length * 2 > found.filter((row) => !row.reference).length
      ? near
      : found;
  }

  /** What the chart leaves out, in words. */
  function leftOut() {
    const drawn = new Set(shown());
    const far = measured().filter((row) => !drawn.has(row));
    const without = rows.filter((row) => !row.point.every((s) => s.n));
    const ends = far.map(
      (row) => `${row.label} (TA ${number(row.point[0].mean, "%")}, |rUA| ${number(row.point[1].mean, "points")})`,
    );
    return [
      far.length ? `Not drawn, as they lost more than ${FAR} points of TA: ${ends.join(", ")}.` : "",
      without.length ? `Not evaluated at this epoch: ${without.map((row) => row.label).join(", ")}.` : "",
    ]
      .filter(Boolean)
      .join(" ");
  }

  /** Labels beside their points, where they cover no point and no other label; else none. */
  function placeLabels(found, { left, right, bottom, top, narrow }) {
    const box = byId("overview-chart");
    const wide = box.clientWidth - GRID.left - GRID.right;
    const high = box.clientHeight - GRID.top - GRID.bottom;
    const size = narrow ? 10 : 11;
    const spots = new Map(
      found.map((row) => [
        row,
        [
          (wide * (row.point[0].mean - left)) / (right - left),
          (high * (top - row.point[1].mean)) / (top - bottom),
        ],
      ]),
    );
    const zero = (high * top) / (top - bottom);
    const taken = [...spots.values()].map(([x, y]) => [x - 5, x + 5, y - 5, y + 5]);
    taken.push([0, 30, zero - 16, zero]); // the name of the zero line
    const labels = new Map();
    const order = [...found].sort((a, b) => b.reference - a.reference || a.point[1].mean - b.point[1].mean);
    for (const row of order) {
      const name = fitEnd(row.label, narrow ? 116 : 170, size);
      const [x, y] = spots.get(row);
      const length = textWidth(name, size);
      const half = size * 0.65;
      const places = {
        right: [x + 7, x + 12 + length, y - half, y + half],
        left: [x - 12 - length, x - 7, y - half, y + half],
        top: [x - length / 2, x + length / 2, y - 8 - 2 * half, y - 7],
        bottom: [x - length / 2, x + length / 2, y + 7, y + 8 + 2 * half],
      };
      const free = ([a, b, d, e]) =>
        a >= 0 &&
        b <= wide + GRID.right &&
        d >= -GRID.top &&
        e <= high &&
        (e < zero || d > zero) &&
        taken.every(([f, g, h, k]) => b < f || a > g || e < h || d > k);
      const position = Object.keys(places).find((side) => free(places[side]));
      if (position) taken.push(places[position]);
      labels.set(row, { show: Boolean(position), position, formatter: name, fontSize: size });
    }
    return labels;
  }

  const cloud = draw(
    "overview-chart",
    (c) => {
      const found = shown();
      const methods = [...new Set(found.filter((r) => !r.reference).map((r) => r.runs[0].settings.method))];
      const narrow = byId("overview-chart").clientWidth < NARROW;
      const [left, right] = axisRange(found.map((row) => row.point[0].mean), 0.08);
      const top = Math.max(1, ...found.map((row) => row.point[1].mean)) * 1.12;
      const bottom = -0.08 * top;
      const labels = placeLabels(found, { left, right, bottom, top, narrow });
      const colour = (row) =>
        row.reference ? c.ink : c[SERIES[methods.indexOf(row.runs[0].settings.method) % SERIES.length]];
      const unnamed = found.filter((row) => !labels.get(row).show).length;
      byId("overview-names").textContent = unnamed
        ? `${plural(unnamed, "point")} without room for a name: hover, or see the table.`
        : "";
      return {
        grid: { ...GRID, outerBoundsMode: "none" },
        tooltip: {
          trigger: "item",
          formatter: (p) =>
            tip(p.data.row.label, [
              ["TA", text("ta", p.data.row.point[0])],
              ["|rUA|", text("abs_rua", p.data.row.point[1])],
              ["n", String(p.data.row.point[1].n)],
            ]),
        },
        xAxis: {
          type: "value",
          min: left,
          max: right,
          name: "TA, % (more is better)",
          axisLabel: { showMinLabel: false, showMaxLabel: false, formatter: (v) => number(v, "%") },
        },
        yAxis: {
          type: "value",
          min: bottom,
          max: top,
          name: "|rUA|, points (zero is the ideal)",
          axisLabel: { showMinLabel: false, showMaxLabel: false },
        },
        series: [
          {
            type: "scatter",
            z: 3,
            markLine: {
              silent: true,
              symbol: "none",
              data: [
                {
                  yAxis: 0,
                  lineStyle: { color: c.ink, type: "solid", width: 1.6 },
                  label: { show: true, formatter: "zero", position: "insideStartTop", color: c.ink },
                },
              ],
            },
            data: found.map((row) => ({
              value: row.point.map((s) => s.mean),
              row,
              symbol: row.reference ? "diamond" : "circle",
              symbolSize: row.reference ? 14 : 10,
              itemStyle: { color: colour(row), borderColor: c.card, borderWidth: 1 },
              label: { ...labels.get(row), color: c.ink },
            })),
          },
        ],
      };
    },
    { walk: () => shown().length },
  );

  taskBox.addEventListener("change", () => {
    offerEpochs();
    regroup();
  });
  epochBox.addEventListener("change", regroup);
  offerEpochs();
  regroup();
}
