/* Light and dark; values under the pointer in charts; images under the pointer in maps. Texts come from attributes and are
 * added as text, never as HTML. */
(function () {
var root = document.documentElement, button = document.getElementById('theme');
function dark() {
  var set = root.getAttribute('data-theme');
  return set ? set == 'dark' : matchMedia('(prefers-color-scheme:dark)').matches;
}
function label() { button.textContent = dark() ? '\u2600 light' : '\u263e dark'; }
button.hidden = false;
button.onclick = function () { root.setAttribute('data-theme', dark() ? 'light' : 'dark'); label(); };
label();
function element(name, parent) { return parent.appendChild(document.createElement(name)); }
function box(svg) { var tip = element('div', svg.parentNode); tip.className = 'tip'; return tip; }
/* Puts the box beside a point of the drawing, on the side where it fits. */
function put(tip, svg, x, y) {
  var r = svg.getBoundingClientRect(), f = svg.parentNode.getBoundingClientRect(), left = r.left - f.left + x * r.width;
  var right = left + 12 + tip.offsetWidth <= f.width;
  tip.style.top = r.top - f.top + y * r.height + 'px';
  tip.style.left = (right ? left + 12 : Math.max(0, left - 12 - tip.offsetWidth)) + 'px';
}

/* ----- charts: 520 wide, the plotting area is 56..508 x 14..234 (plot_axes.h) ----- */

function numbers(path, key) {
  return path.getAttribute(key).split(',').map(function (v) { return v === '' ? NaN : +v; });
}
/* Index of the value nearest to x; -1: none. */
function nearest(line, x) {
  var best = -1;
  line.x.forEach(function (v, i) {
    if (!isNaN(line.y[i]) && (best < 0 || Math.abs(v - x) < Math.abs(line.x[best] - x))) best = i;
  });
  return best;
}
document.querySelectorAll('svg.plot').forEach(function (svg) {
  var x0 = +svg.getAttribute('data-x0'), x1 = +svg.getAttribute('data-x1'), hair, tip;
  var lines = [].map.call(svg.querySelectorAll('path[data-y]'), function (path) {
    return {path: path, name: path.getAttribute('data-name'), x: numbers(path, 'data-x'), y: numbers(path, 'data-y')};
  });
  function leave() { if (tip) { hair.remove(); tip.remove(); tip = null; } }
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('pointermove', function (e) {
    var r = svg.getBoundingClientRect(), x = x0 + ((e.clientX - r.left) / r.width * 520 - 56) / 452 * (x1 - x0), at = NaN;
    lines.forEach(function (l) {
      var i = nearest(l, x);
      if (i >= 0 && !(Math.abs(l.x[i] - x) >= Math.abs(at - x))) at = l.x[i];
    });
    if (isNaN(at)) return leave();
    if (!tip) {
      hair = svg.appendChild(document.createElementNS(svg.namespaceURI, 'path'));
      hair.setAttribute('class', 'hair');
      tip = box(svg);
    }
    var px = 56 + (at - x0) / (x1 - x0) * 452;
    hair.setAttribute('d', 'M' + px + ' 14V234');
    tip.textContent = '';
    element('div', tip).textContent = svg.getAttribute('data-unit') + ' ' + +at.toPrecision(4);
    lines.forEach(function (l) {
      var i = nearest(l, at), row;
      if (i < 0 || Math.abs(l.x[i] - at) > (x1 - x0) / 40) return;
      row = element('div', tip);
      element('i', row).style.background = getComputedStyle(l.path).stroke;
      row.appendChild(document.createTextNode(l.name + ': ' + +l.y[i].toPrecision(4)));
    });
    put(tip, svg, px / 520, 0.03);
  });
});

/* ----- maps: 400 x 400 (svg_dots.c) ----- */

var sheet = document.getElementById('sheet');
if (sheet) document.querySelectorAll('svg.map').forEach(function (svg) {
  var dots = [], tip, picture, side = +sheet.getAttribute('data-side'), columns = +sheet.getAttribute('data-columns');
  svg.querySelectorAll('path[data-i]').forEach(function (path) {
    var ids = path.getAttribute('data-i').split(',');
    path.getAttribute('d').split('M').slice(1).forEach(function (move, k) {
      var at = move.split(/[ h]/);
      dots.push({x: +at[0], y: +at[1], id: +ids[k], name: path.textContent});
    });
  });
  function leave() { if (tip) { tip.remove(); tip = null; } }
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('pointermove', function (e) {
    var r = svg.getBoundingClientRect(), dot = null, best = 400;
    var x = (e.clientX - r.left) / r.width * 400, y = (e.clientY - r.top) / r.height * 400;
    dots.forEach(function (d) {
      var far = (d.x - x) * (d.x - x) + (d.y - y) * (d.y - y);
      if (far < best) { best = far; dot = d; }
    });
    if (!dot) return leave();
    if (!tip) {
      tip = box(svg);
      picture = element('canvas', tip);
      picture.width = picture.height = 96;
      element('div', tip);
    }
    tip.lastChild.textContent = dot.name;
    var left = dot.id % columns * side, top = Math.floor(dot.id / columns) * side;
    picture.getContext('2d').drawImage(sheet, left, top, side, side, 0, 0, 96, 96);
    put(tip, svg, dot.x / 400, dot.y / 400 + 0.03);
  });
});
})();
