"use strict";
(() => {
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue("--" + name).trim();
    return {
      text: value("text"), soft: value("soft"), line: value("line"), grid: value("grid"), raised: value("raised"),
      series: [1, 2, 3, 4, 5, 6].map((place) => value("series-" + place)),
    };
  };
  // From blue through white to brown for values of both signs; Viridis for the others.
  const SIGNED = [[0, "#2166ac"], [0.25, "#92c5de"], [0.5, "#f7f7f7"], [0.75, "#fdb863"], [1, "#b35806"]];

  function coloured(trace, place, look, narrow) {
    const colour = look.series[place % look.series.length];
    if (trace.type === "heatmap") {
      // Its title is an annotation of the layout: Plotly would set it across the bar here.
      const along = { title: { text: "" }, orientation: "h", yref: "container", y: 1, yanchor: "top", ypad: 22, len: 0.9, thickness: 12 };
      const beside = { ...trace.colorbar, len: 1, thickness: 14 };
      return {
        ...trace,
        colorscale: trace.zmin < 0 ? SIGNED : "Viridis",
        colorbar: { ...(narrow ? along : beside), outlinewidth: 0, tickcolor: look.soft },
      };
    }
    const errors = trace.error_y && { error_y: { ...trace.error_y, color: colour } };
    if (trace.type === "bar") return { ...trace, ...errors, marker: { color: colour } };
    return { ...trace, ...errors, line: { ...trace.line, color: colour }, marker: { ...trace.marker, color: colour } };
  }

  function framed(spec, look, width, narrow) {
    const map = spec.data[0].type === "heatmap";
    const axis = { gridcolor: look.grid, linecolor: look.line, zerolinecolor: look.line, tickcolor: look.line,
                   zeroline: !map, showgrid: !map, fixedrange: touch.matches, title: { standoff: 10 } };
    const joined = (own) => ({ ...axis, ...own, title: { ...axis.title, ...own.title } });
    const x = joined(spec.layout.xaxis), y = joined(spec.layout.yaxis);
    let height = narrow ? 320 : 380;
    if (map) {
      const rows = spec.data[0].y.length, columns = spec.data[0].x.length;
      const room = width - (narrow ? 70 : 140);
      height = Math.max(220, Math.min(room * rows / columns, 24 * rows, 640)) + (narrow ? 145 : 75);
    }
    const title = map && narrow && {
      annotations: [{ text: spec.data[0].colorbar.title.text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 1, yanchor: "bottom", yshift: 69 }],
    };
    return {
      ...spec.layout, ...title, xaxis: x, yaxis: y, width, height,
      margin: { l: 50, r: 10, t: map && narrow ? 88 : 10, b: 45 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: look.text, size: narrow ? 11 : 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: look.raised, bordercolor: look.line, font: { color: look.text } },
      dragmode: touch.matches ? false : "zoom",
    };
  }

  function draw(box) {
    const spec = plots[box.dataset.figure];
    const width = Math.floor(box.clientWidth);
    const narrow = width < 480;
    const look = theme();
    box.dataset.width = width;
    // Drawn afresh: an update would keep what belongs to the other width, such as a colour bar.
    return Plotly.newPlot(
      box,
      spec.data.map((trace, place) => coloured(trace, place, look, narrow)),
      framed(spec, look, width, narrow),
      { displayModeBar: false },
    );
  }

  const shown = (value) => (typeof value === "number" ? String(Number(value.toPrecision(6))) : value === null ? "–" : value);
  const plain = (text) => typeof text === "string" ? text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&") : text;

  function rowsOf(spec) {
    const [first] = spec.data;
    if (first.type === "heatmap") {
      return [["", ...first.x], ...first.y.map((name, row) => [name, ...first.z[row]])];
    }
    const same = spec.data.every((trace) => trace.x.length === first.x.length && trace.x.every((x, i) => x === first.x[i]));
    if (same) {
      const head = [spec.layout.xaxis.title.text, ...spec.data.map((trace) => trace.name)];
      return [head, ...first.x.map((x, i) => [first.text[i], ...spec.data.map((trace) => trace.y[i])])];
    }
    return [["", spec.layout.xaxis.title.text, spec.layout.yaxis.title.text],
            ...spec.data.flatMap((trace) => trace.x.map((x, i) => [trace.name, trace.text[i], trace.y[i]]))];
  }

  function listed(details) {
    const box = details.querySelector(".scroll");
    if (!details.open || box.firstChild) return;
    const table = box.appendChild(document.createElement("table"));
    rowsOf(plots[details.dataset.figure]).forEach((values, row) => {
      const line = (row ? table.tBodies[0] || table.createTBody() : table.createTHead()).insertRow();
      values.forEach((value, column) => {
        const cell = document.createElement(row && column ? "td" : "th");
        if (cell.tagName === "TH") cell.scope = row ? "row" : "col";
        cell.textContent = plain(shown(value));
        line.append(cell);
      });
    });
  }

  const boxes = [...document.querySelectorAll(".plot")];
  const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (Math.floor(target.clientWidth) !== Number(target.dataset.width)) draw(target);
  }));
  dark.addEventListener("change", () => boxes.forEach(draw));
  document.querySelectorAll("details.numbers").forEach((details) => details.addEventListener("toggle", () => listed(details)));
  Promise.all(boxes.map(draw)).then(() => {
    boxes.forEach((box) => resized.observe(box));
    document.documentElement.dataset.drawn = "yes";
  });
})();
