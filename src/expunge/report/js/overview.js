// The first view: |rUA| against TA of every method of a task, and its metrics side by side.

if (byId("overview-chart")) {
  const taskBox = byId("overview-task"),
    epochBox = byId("overview-epoch");
  taskBox.append(...data.tasks.map((task) => make("option", { value: task, text: task })));
  byId("overview-task-label").hidden = data.tasks.length < 2;
  const chosen = new Set(data.side_by_side);
  const NARROW = 560;

  const records = () =>
    data.records.filter(
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
      records()
        .filter((r) => r.main)
        .flatMap((r) => r.epochs.filter((row) => row.scored).map((row) => row.epoch)),
    );
    epochBox.replaceChildren(
      make("option", { value: "last", text: "last" }),
      ...[...found].sort((a, b) => a - b).map((e) => make("option", { value: e, text: String(e) })),
    );
  }

  function regroup() {
    rows = grouped(records(), ["label", "moments"]);
    for (const row of rows) {
      row.label = shortLabel(row, rows);
      row.point = ["ta", "abs_rua"].map((name) => summary(row.runs.map((run) => at(run, name))));
    }
    const without = rows.filter((row) => !row.point.every((s) => s.n));
    byId("overview-note").textContent = without.length
      ? `Not evaluated at this epoch: ${without.map((row) => row.label).join(", ")}.`
      : "";
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
          show: (row) =>
            make("span", {
              className: "value",
              text: text(name, value(row, name)),
              "data-metric": name,
              "data-mean": value(row, name).mean,
            }),
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

  /** Labels beside their points; one that would lie on another is left to the tooltip. */
  function placeLabels(found, { left, right, top, narrow }) {
    const box = byId("overview-chart");
    const [wide, high] = [box.clientWidth - 78, box.clientHeight - 72];
    const size = narrow ? 10 : 11;
    const taken = [];
    const labels = new Map();
    for (const row of [...found].sort((a, b) => b.reference - a.reference || a.point[1].mean - b.point[1].mean)) {
      const name = keepEnd(row.label, narrow ? 14 : 26);
      const x = (wide * (row.point[0].mean - left)) / (right - left);
      const y = (high * row.point[1].mean) / top;
      const toLeft = x > wide / 2;
      const length = name.length * size * 0.6 + 12;
      const rect = [toLeft ? x - length : x, toLeft ? x : x + length, y - size * 0.6, y + size * 0.6];
      const free = taken.every(([a, b, d, e]) => rect[1] < a || rect[0] > b || rect[3] < d || rect[2] > e);
      if (free) taken.push(rect);
      const show = free || row.reference;
      labels.set(row, { show, position: toLeft ? "left" : "right", formatter: name, fontSize: size });
    }
    return labels;
  }

  const shown = () => rows.filter((row) => row.point?.every((s) => s.n));
  const cloud = draw(
    "overview-chart",
    (c) => {
      const found = shown();
      const methods = [...new Set(found.filter((r) => !r.reference).map((r) => r.runs[0].settings.method))];
      const narrow = byId("overview-chart").clientWidth < NARROW;
      const [left, right] = axisRange(found.map((row) => row.point[0].mean), 0.08);
      const top = Math.max(1, ...found.map((row) => row.point[1].mean)) * 1.12;
      const labels = placeLabels(found, { left, right, top, narrow });
      const colour = (row) =>
        row.reference ? c.target : c[SERIES[methods.indexOf(row.runs[0].settings.method) % SERIES.length]];
      return {
        grid: { left: 54, right: 24, top: 24, bottom: 48, outerBoundsMode: "none" },
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
          min: -0.04 * top,
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
              symbolSize: row.reference ? 15 : 11,
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
