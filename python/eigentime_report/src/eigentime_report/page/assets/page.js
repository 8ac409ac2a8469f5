"use strict";
// Charts are drawn when they come near the window, and all of them before the page is printed.
(() => {
  const PRINTED_WIDTH = 680;
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  };
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const plots = [...document.querySelectorAll(".plot")];
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const common = plots.length ? read("common") : { colours: {}, shared: [] };
  const darkOf = new Map(Object.entries(common.colours));
  const widths = plots.length ? read(plots[0].dataset.chart).narrower.map((it) => it.width) : [];
  let isPrinting = false;

  const isDark = () =>
    !isPrinting && (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  // A copy of a figure; in the dark its colours are those of the dark theme.
  const recoloured = (value, colours) => {
    if (typeof value === "string") return colours?.get(value) ?? value;
    if (Array.isArray(value)) return value.map((each) => recoloured(each, colours));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, recoloured(each, colours)]),
    );
  };

  // What plotly.js takes, of what packed.py has made of it.
  const shared = (place) => common.shared[place];
  const array = (found) => (typeof found === "string" ? { dtype: "f4", bdata: found } : found);
  const axisId = (letter, panel) => letter + (panel === 1 ? "" : panel);
  const unpacked = ({ arrays, traces, layout, narrower }, form) => {
    const { axes, template, annotations, shapes, ...rest } = {
      ...layout,
      ...narrower[form]?.changes,
    };
    const found = {
      ...rest,
      template: shared(template),
      annotations: annotations.map(shared),
      shapes: shapes.map(shared),
    };
    for (let at = 0; at < axes.length; at += 2) {
      const panel = Math.floor(at / 4) + 1;
      const [letter, other] = at % 4 ? ["y", "x"] : ["x", "y"];
      found[axisId(`${letter}axis`, panel)] = {
        ...shared(axes[at]),
        domain: shared(axes[at + 1]),
        anchor: axisId(other, panel),
      };
    }
    const data = traces.map(([look, panel, x, y]) => ({
      ...shared(look),
      x: array(arrays[x]),
      y: array(arrays[y]),
      ...(panel && { xaxis: axisId("x", panel), yaxis: axisId("y", panel) }),
    }));
    return { data, layout: found };
  };

  // Which of the narrower layouts fits; -1: none is needed.
  const formOf = (plot) => {
    const width = isPrinting ? PRINTED_WIDTH : plot.clientWidth;
    return widths.findLastIndex((each) => width <= each);
  };

  const draw = (plot) => {
    const form = formOf(plot);
    const { data, layout } = recoloured(
      unpacked(read(plot.dataset.chart), form),
      isDark() ? darkOf : null,
    );
    plot.dataset.form = form;
    layout.uirevision = "kept";
    if (isPrinting) layout.width = PRINTED_WIDTH;
    else layout.autosize = true;
    const options = {
      ...CONFIG,
      responsive: !isPrinting,
      toImageButtonOptions: { format: "svg", filename: plot.dataset.chart.replace(/^data-/, "") },
    };
    plot.dataset.state = "drawn";
    window.Plotly.react(plot, data, layout, options).catch((error) => failed(plot, error));
  };

  const failed = (plot, error) => {
    plot.dataset.state = "failed";
    plot.textContent = `This chart could not be drawn: ${error.message}`;
  };

  const drawAll = (chosen) => {
    for (const plot of chosen) {
      try {
        draw(plot);
      } catch (error) {
        failed(plot, error);
      }
    }
  };

  const near = new IntersectionObserver(
    (entries) => {
      const arrived = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
      arrived.forEach((plot) => near.unobserve(plot));
      drawAll(arrived);
    },
    { rootMargin: "500px 0px" },
  );
  plots.forEach((plot) => near.observe(plot));

  // Those that are drawn and seen are drawn anew; others will be when they are seen.
  const redraw = (isStale = () => true) => {
    const drawn = plots.filter((plot) => plot.dataset.state === "drawn");
    drawn.filter((plot) => !plot.clientWidth).forEach((plot) => near.observe(plot));
    drawAll(drawn.filter((plot) => plot.clientWidth && isStale(plot)));
  };
  window.addEventListener("resize", () => {
    if (!isPrinting) redraw((plot) => +plot.dataset.form !== formOf(plot));
  });
  dark.addEventListener("change", () => redraw());
  for (const choice of document.querySelectorAll("input[name=theme]")) {
    choice.checked = choice.value === (root.dataset.theme ?? "auto");
    choice.addEventListener("change", () => {
      window.chooseTheme(choice.value);
      redraw();
    });
  }

  // Of a choice one option is seen, the selected one.
  const choose = (choice, key) => {
    choice.querySelector("select").value = key;
    for (const option of choice.querySelectorAll(".option")) option.hidden = option.id !== key;
  };
  for (const choice of document.querySelectorAll(".choice")) {
    const select = choice.querySelector("select");
    // A page that is come back to may have another one selected.
    choose(choice, select.value);
    select.addEventListener("change", () => choose(choice, select.value));
  }

  // Printed: in light, as wide as the paper, and what is not seen is not there.
  window.addEventListener("beforeprint", () => {
    if (isPrinting) return;
    isPrinting = true;
    const seen = plots.filter((plot) => !plot.closest("details:not([open]), [hidden]"));
    seen.forEach((plot) => near.unobserve(plot));
    drawAll(seen);
  });
  window.addEventListener("afterprint", () => {
    isPrinting = false;
    redraw();
  });

  // A link to something in a fold opens it, and one to an option chooses that.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const option = target?.closest(".option[hidden]");
    let fold = target?.closest("details:not([open])");
    if (!option && !fold) return;
    if (option) choose(option.closest(".choice"), option.id);
    for (; fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  // The contents say where the reader is, and are folded where they would fill the window.
  const contents = document.querySelector("nav details");
  const wideEnough = matchMedia("(min-width: 68rem)");
  const fit = () => contents.toggleAttribute("open", wideEnough.matches);
  fit();
  wideEnough.addEventListener("change", fit);
  const links = new Map(
    [...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]),
  );
  const inView = new Set();
  const where = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) inView.add(target.id);
        else inView.delete(target.id);
      }
      const first = [...links.keys()].find((id) => inView.has(id));
      for (const [id, link] of links) {
        if (id === first) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-15% 0px -70% 0px" },
  );
  links.forEach((_, id) => where.observe(document.getElementById(id)));
})();
