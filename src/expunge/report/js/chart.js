// Charts that are redrawn when the theme or their size changes, and can be used by keyboard.

let lastTip = "";

/** The content of a tooltip, as an element, so that no name in it is parsed as HTML. */
function tip(title, rows) {
  lastTip = [title, ...rows.map((row) => row.join(" "))].join(", ");
  const lines = rows.map(([name, value]) =>
    make("div", {}, make("span", { text: name }), make("span", { text: value })),
  );
  return make("div", { className: "tip" }, make("b", { text: title }), ...lines);
}

/** Options that all charts share. */
function common(c, option) {
  const text = { color: c.quiet, fontSize: 12, fontFamily: "inherit" };
  const axis = (own) => ({
    axisLine: { onZero: false, lineStyle: { color: c.line } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: c.line } },
    nameTextStyle: text,
    nameLocation: "middle",
    nameGap: 30,
    ...own,
    axisLabel: { ...text, hideOverlap: true, ...own.axisLabel },
  });
  return {
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: c.ink },
    grid: { left: 56, right: 24, top: 28, bottom: 48, outerBoundsMode: "none" },
    ...option,
    tooltip: {
      backgroundColor: c.card,
      borderColor: c.line,
      textStyle: { color: c.ink },
      confine: true,
      axisPointer: { lineStyle: { color: c.quiet }, crossStyle: { color: c.quiet } },
      ...option.tooltip,
    },
    xAxis: axis(option.xAxis ?? {}),
    yAxis: axis(option.yAxis ?? {}),
  };
}

/** Zooming along x: a slider below the chart, and the wheel with the control key. */
function zoom(c) {
  return [
    {
      type: "inside",
      zoomOnMouseWheel: "ctrl",
      moveOnMouseMove: false,
      moveOnMouseWheel: false,
      preventDefaultMouseMove: false,
    },
    {
      type: "slider",
      height: 18,
      bottom: 6,
      borderColor: c.line,
      fillerColor: c.soft,
      textStyle: { color: c.quiet },
      showDataShadow: false,
      brushSelect: false,
      handleStyle: { color: c.card, borderColor: c.quiet },
      moveHandleStyle: { color: c.quiet },
    },
  ];
}

/**
 * Draw `build(colours)` in the box of that id. `table()` gives its numbers as rows, the first of
 * them the head; `walk` is the number of points that arrow keys step through.
 */
function draw(id, build, { table = null, walk = () => 0 } = {}) {
  const box = byId(id);
  if (!box) return { update() {} };
  const chart = echarts.init(box, null, { renderer: "svg" });
  const update = () => {
    const option = common(colours(), build(colours()));
    chart.resize(); // building may have changed the height of the box
    chart.setOption(option, { notMerge: true });
    if (table) fillTable(id, table);
  };
  redraws.push(update);
  update();
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (root.classList.contains("printing") || box.clientWidth === width) return;
    width = box.clientWidth;
    update();
  }).observe(box);
  handleKeys(box, chart, walk);
  return { chart, update };
}

/** Fill the table below a chart when it is opened. */
function fillTable(id, table) {
  const place = byId(`${id}-table`);
  const fold = place?.closest("details");
  if (!fold) return;
  const write = () => {
    const [head, ...rows] = table();
    place.replaceChildren(
      make(
        "table",
        {},
        make(
          "thead",
          {},
          make("tr", {}, ...head.map((text) => make("th", { text, scope: "col" }))),
        ),
        make(
          "tbody",
          {},
          ...rows.map((row) =>
            make(
              "tr",
              {},
              ...row.map((text, k) => make("td", { text, className: k ? "num" : "" })),
            ),
          ),
        ),
      ),
    );
  };
  fold.ontoggle = () => {
    if (fold.open) write();
  };
  if (fold.open) write();
}

function handleKeys(box, chart, walk) {
  let at = -1;
  const scale = (by) => {
    const range = chart.getOption().dataZoom?.[0];
    if (!range) return;
    const middle = (range.start + range.end) / 2;
    const half = by === null ? 50 : Math.max(2, ((range.end - range.start) / 2) * by);
    const start = by === null ? 0 : Math.max(0, middle - half);
    chart.dispatchAction({
      type: "dataZoom",
      start,
      end: by === null ? 100 : Math.min(100, middle + half),
    });
  };
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && walk()) {
      at = (at + step + walk()) % walk();
      chart.dispatchAction({ type: "showTip", seriesIndex: 0, dataIndex: at });
      announce(lastTip);
    } else if (event.key === "+" || event.key === "=") scale(0.5);
    else if (event.key === "-") scale(2);
    else if (event.key === "0") scale(null);
    else if (event.key === "Escape") chart.dispatchAction({ type: "hideTip" });
    else return;
    event.preventDefault();
  });
  box.addEventListener("blur", () => {
    at = -1;
    chart.dispatchAction({ type: "hideTip" });
  });
}
