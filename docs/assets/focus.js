// The picture of the focus vector: f by two gradients in units of their noise. No library.
(function () {
  function start() {
    const box = document.getElementById("focus-picture");
    if (!box || box.dataset.ready) return;
    box.dataset.ready = "yes";
    const canvas = box.querySelector("canvas");
    const slider = box.querySelector("input");
    const context = canvas.getContext("2d");
    const size = canvas.width, reach = 3; // gradients from -3 to 3
    const point = { u: 1.6, c: 0.5 };

    // The error function, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
    function erf(x) {
      const t = 1 / (1 + 0.3275911 * Math.abs(x));
      const tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
      return Math.sign(x) * (1 - tail * Math.exp(-x * x));
    }
    const phi = (x) => 0.5 * (1 + erf(x / Math.SQRT2));
    function focus(u, c, noise) {
      const a = phi(u / noise), b = phi(c / noise);
      return a * b + (1 - a) * (1 - b);
    }
    // White at 1/2, orange towards 1, violet towards 0: as in the figure of the paper.
    function colour(f) {
      const end = f > 0.5 ? [204, 102, 0] : [94, 60, 153], share = Math.abs(2 * f - 1);
      return end.map((part) => Math.round(247 + (part - 247) * share));
    }

    function draw() {
      const noise = Number(slider.value), step = 4;
      for (let x = 0; x < size; x += step) {
        for (let y = 0; y < size; y += step) {
          const u = (x / size - 0.5) * 2 * reach, c = (0.5 - y / size) * 2 * reach;
          context.fillStyle = "rgb(" + colour(focus(u, c, noise)).join(",") + ")";
          context.fillRect(x, y, step, step);
        }
      }
      const x = (point.u / reach / 2 + 0.5) * size, y = (0.5 - point.c / reach / 2) * size;
      context.strokeStyle = "#555";
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(size / 2, 0); context.lineTo(size / 2, size);
      context.moveTo(0, size / 2); context.lineTo(size, size / 2);
      context.stroke();
      context.fillStyle = "#222";
      context.font = "16px sans-serif";
      context.fillText("ĝ_U", size - 36, size / 2 - 8);
      context.fillText("ĝ_C", size / 2 + 8, 18);
      context.beginPath();
      context.arc(x, y, 9, 0, 2 * Math.PI);
      context.fill();
      context.strokeStyle = "white";
      context.lineWidth = 2;
      context.stroke();

      const f = focus(point.u, point.c, noise);
      const values = {
        u: (point.u / noise).toFixed(2),
        c: (point.c / noise).toFixed(2),
        and: point.u * point.c > 0 ? "1" : "0",
        prob: f > 0.3 ? "1" : "0",
        f: f.toFixed(2),
      };
      for (const cell of box.querySelectorAll("[data-value]")) cell.textContent = values[cell.dataset.value];
    }

    function move(event) {
      const place = canvas.getBoundingClientRect();
      const within = (value) => Math.min(reach, Math.max(-reach, value));
      point.u = within(((event.clientX - place.left) / place.width - 0.5) * 2 * reach);
      point.c = within((0.5 - (event.clientY - place.top) / place.height) * 2 * reach);
      draw();
    }
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); move(event); });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons) move(event); });
    canvas.addEventListener("keydown", (event) => {
      const ways = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
      if (!ways[event.key]) return;
      point.u = Math.min(reach, Math.max(-reach, point.u + ways[event.key][0]));
      point.c = Math.min(reach, Math.max(-reach, point.c + ways[event.key][1]));
      event.preventDefault();
      draw();
    });
    slider.addEventListener("input", draw);
    draw();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
