// Histograms of the scores and the threshold that an attacker might choose.

if (byId("score-chart")) {
  const SPLITS = { forget: "forgotten", val: "unseen (validation)", retain: "retained" };
  const DASHES = { forget: "solid", val: "solid", retain: "dashed" };
  const sides = ["before", "after"].filter((side) => data.scores[side]);
  const splits = Object.keys(SPLITS).filter((name) =>
    sides.some((side) => data.scores[side][name]?.length),
  );
  // Counts in equal bins from 0 to 1; a threshold is one of their edges.
  const BINS = Math.max(
    ...sides.flatMap((side) => splits.map((name) => data.scores[side][name]?.length ?? 0)),
  );
  const shown = new Set(splits);
  let side = sides.includes("after") ? "after" : sides[0];

  const slider = byId("threshold");
  Object.assign(slider, { min: 0, max: 1, step: 1 / BINS });
  slider.value = Math.round(BINS / 2) / BINS;
  const threshold = () => Number(slider.value);
  const counts = (name) => data.scores[side][name] ?? [];
  const sum = (values) => values.reduce((total, value) => total + value, 0);

  function histogram(name) {
    const total = sum(counts(name));
    return Array.from({ length: BINS }, (_, k) =>
      total ? (100 * (counts(name)[k] ?? 0)) / total : 0,
    );
  }
  const edge = (k) => k / BINS;
  const mark = (c) => markLines([lineAt("xAxis", threshold(), c.ink, "threshold", "end")]);

  const build = (c) => {
    const drawn = splits.filter((name) => shown.has(name));
    const shares = Object.fromEntries(drawn.map((name) => [name, histogram(name)]));
    return {
      grid: { left: 56, right: 24, top: 34, bottom: 52, outerBoundsMode: "none" },
      tooltip: {
        trigger: "axis",
        axisPointer: { snap: true },
        formatter: (found) => {
          const k = Math.min(BINS - 1, found[0].dataIndex);
          return tip(
            `${number(edge(k), "", 3)} to ${number(edge(k + 1), "", 3)}`,
            drawn.map((name) => [SPLITS[name], `${shares[name][k].toFixed(1)} %`]),
          );
        },
      },
      xAxis: {
        type: "value",
        min: 0,
        max: 1,
        name: data.scores.name ?? "score",
        splitLine: { show: false },
      },
      yAxis: { type: "value", min: 0, axisLabel: { formatter: "{value} %" }, name: "" },
      series: [
        { id: "mark", type: "line", data: [], markLine: mark(c) },
        ...drawn.map((name) => ({
          type: "line",
          name: SPLITS[name],
          step: "end",
          symbol: "none",
          z: name === "forget" ? 4 : 3,
          lineStyle: { color: c[name], width: 2, type: DASHES[name] },
          itemStyle: { color: c[name] },
          areaStyle: name === "retain" ? undefined : { color: c[name], opacity: 0.14 },
          data: [
            ...shares[name].map((share, k) => [edge(k), share]),
            [1, shares[name][BINS - 1]],
          ],
        })),
      ],
    };
  };
  const table = () => [
    ["From", "To", ...splits.map((name) => `${SPLITS[name]}, %`)],
    ...Array.from({ length: BINS }, (_, k) => [
      number(edge(k), "", 3),
      number(edge(k + 1), "", 3),
      ...splits.map((name) => histogram(name)[k].toFixed(1)),
    ]),
  ];
  const picture = draw("score-chart", build, { table });

  function showThreshold() {
    const t = threshold();
    byId("threshold-value").textContent = number(t, "", 3);
    const above = Object.fromEntries(
      splits.map((name) => [name, sum(counts(name).slice(Math.round(t * BINS)))]),
    );
    byId("shares").replaceChildren(
      ...splits.map((name) => {
        const total = sum(counts(name));
        const box = make(
          "div",
          { "data-split": name, "data-above": above[name], "data-total": total },
          make("span", { text: `${SPLITS[name]} at or above` }),
          make("b", { text: total ? percent(above[name] / total) : "–" }),
          make("span", {
            text: `${above[name].toLocaleString("en-US")} of ${total.toLocaleString("en-US")}`,
          }),
        );
        box.style.setProperty("--own", `var(--${name})`);
        return box;
      }),
    );
    byId("score-words").textContent = sentence(above);
    slider.setAttribute("aria-valuetext", `${number(t, "", 3)}`);
    picture.chart.setOption({ series: [{ id: "mark", markLine: mark(colours()) }] });
  }

  function sentence(above) {
    if (!sum(counts("forget")) || !sum(counts("val")))
      return "There are no scores to compare for this model.";
    const [forgotten, unseen] = ["forget", "val"].map(
      (name) => (100 * above[name]) / sum(counts(name)),
    );
    const gap = forgotten - unseen;
    const times = gap > 0 ? "more often than" : "less often than";
    const often =
      Math.abs(gap) < 0.05 ? "as often as" : `${Math.abs(gap).toFixed(1)} points ${times}`;
    const when = side === "before" ? "Before" : "After";
    return `${when} the request, this threshold finds the forgotten records ${often} unseen ones.`;
  }

  byId("score-splits").append(
    ...splits.map((name) => {
      const box = make("input", {
        type: "checkbox",
        checked: true,
        value: name,
        onchange: (event) => {
          if (event.target.checked) shown.add(name);
          else shown.delete(name);
          picture.update();
        },
      });
      const swatch = make("span", { className: "swatch", "aria-hidden": "true" });
      swatch.style.background = `var(--${name})`;
      return make("label", {}, box, swatch, SPLITS[name]);
    }),
  );
  for (const button of document.querySelectorAll("[data-side]")) {
    button.disabled = !sides.includes(button.dataset.side);
    button.addEventListener("click", () => {
      side = button.dataset.side;
      for (const other of document.querySelectorAll("[data-side]"))
        other.setAttribute("aria-pressed", String(other === button));
      picture.update();
      showThreshold();
    });
  }
  slider.addEventListener("input", showThreshold);
  showThreshold();
}
