// The claims: filtered by status and text.

if (byId("claim-table")) {
  const STATUSES = ["held", "not held", "inconclusive", "no data"].filter((s) =>
    data.claims.some((claim) => claim.status === s),
  );
  const wanted = new Set(STATUSES.filter((s) => s !== "no data"));
  const table = pagedTable({
    table: byId("claim-table"),
    pager: byId("claim-pager"),
    size: 25,
    one: "finding",
    text: (f) => [f.claim, f.statement, f.group, f.detail].join("\n"),
    columns: [
      {
        name: "Claim",
        first: true,
        value: (f) => f.claim,
        show: (f) => [f.claim, make("p", { className: "quiet", text: f.statement ?? "" })],
      },
      {
        name: "Where",
        value: (f) => f.group,
        show: (f) => f.group || "anywhere",
      },
      {
        name: "Status",
        value: (f) => STATUSES.indexOf(f.status),
        show: (f) => [
          make("span", { className: `chip ${f.status.replaceAll(" ", "-")}`, text: f.status }),
          make("p", { className: "quiet detail", text: f.detail ?? "" }),
        ],
      },
      {
        name: "Effect",
        num: true,
        value: (f) => f.effect,
        show: (f) => [
          make("span", {
            className: "value",
            text: number(f.effect, "", 2),
            "data-value": f.effect,
          }),
          make("span", {
            className: "range",
            text: isNumber(f.low) ? `${number(f.low, "", 2)} to ${number(f.high, "", 2)}` : "",
          }),
          make("span", { className: "range", text: f.unit ?? "" }),
        ],
      },
      { name: "n", num: true, value: (f) => f.n, show: (f) => number(f.n) },
    ],
  });
  const choose = () => table.show(data.claims.filter((claim) => wanted.has(claim.status)));
  byId("claim-status").append(
    ...STATUSES.map((status) => {
      const count = data.claims.filter((claim) => claim.status === status).length;
      return make(
        "label",
        {},
        make("input", {
          type: "checkbox",
          value: status,
          checked: wanted.has(status),
          onchange: (event) => {
            if (event.target.checked) wanted.add(status);
            else wanted.delete(status);
            choose();
          },
        }),
        `${status} (${count})`,
      );
    }),
  );
  byId("claim-search").addEventListener("input", (event) => table.search(event.target.value));
  choose();
}
