// The forgotten records: images of those that stand out most, and a table of all.

if (byId("example-table")) {
  const examples = data.examples;
  // Keyed hashes are long; the beginning tells them apart.
  const short = (id) => (/^[0-9a-f]{64}$/.test(id) ? `${id.slice(0, 12)}…` : id);
  const picture = (example, className) => {
    const safe = typeof example.image === "string" && example.image.startsWith("data:image/");
    return safe
      ? make("img", {
          src: example.image,
          className,
          alt: `Record ${short(example.id)}, labelled ${example.label}`,
          decoding: "async",
        })
      : null;
  };
  const flag = (text) =>
    text ? make("span", { className: `chip ${text.replaceAll(" ", "-")}`, text }) : "";

  const worst = examples.filter((example) => picture(example)).slice(0, 24);
  byId("gallery-part").hidden = worst.length === 0;
  byId("gallery").append(
    ...worst.map((example) =>
      make(
        "li",
        {},
        picture(example),
        make("div", { className: "name", text: short(example.id), title: example.id }),
        make("div", {
          className: "prediction",
          text: `label ${example.label}, predicted ${example.after?.prediction ?? "–"}`,
          title: `labelled ${example.label}, predicted ${example.after?.prediction ?? "–"}`,
        }),
        make("div", {
          className: "exposure",
          text: `exposure ${number(example.before?.exposure, "", 2)} → ${number(example.after?.exposure, "", 2)}`,
        }),
        flag(example.flag),
      ),
    ),
  );

  const side = (which, name, label) => ({
    name: label,
    num: name !== "prediction",
    value: (e) => e[which]?.[name],
    show: (e) =>
      name === "prediction" ? (e[which]?.[name] ?? "–") : number(e[which]?.[name], "", 3),
  });
  const table = pagedTable({
    table: byId("example-table"),
    pager: byId("example-pager"),
    one: "record",
    rest: "all are in thumbnails.json beside this page",
    size: 25,
    text: (e) => [e.id, e.label, e.before?.prediction, e.after?.prediction, e.flag].join("\n"),
    columns: [
      {
        name: "Record",
        first: true,
        value: (e) => e.id,
        show: (e) =>
          make(
            "span",
            { className: "who" },
            picture(e, "thumb"),
            make("span", { text: short(e.id), title: e.id }),
          ),
      },
      { name: "Label", value: (e) => e.label, show: (e) => e.label ?? "–" },
      side("before", "prediction", "Prediction before"),
      side("after", "prediction", "Prediction after"),
      side("before", "confidence", "Confidence before"),
      side("after", "confidence", "Confidence after"),
      side("before", "exposure", "Exposure before"),
      side("after", "exposure", "Exposure after"),
      { name: "Flag", value: (e) => e.flag || null, show: (e) => flag(e.flag) },
    ],
  });
  const flags = [...new Set(examples.map((e) => e.flag).filter(Boolean))];
  byId("example-flag").append(...flags.map((text) => make("option", { value: text, text })));
  const choose = () =>
    table.show(
      examples.filter((e) => !byId("example-flag").value || e.flag === byId("example-flag").value),
    );
  byId("example-flag").addEventListener("change", choose);
  byId("example-search").addEventListener("input", (event) => table.search(event.target.value));
  choose();
}
