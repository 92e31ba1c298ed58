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
/* Figures under the pointer, and by the keys: arrows go from value to value, Home and End to the first and the last. */
function reachable(svg, keys, leave) {
  svg.setAttribute('tabindex', '0');
  svg.addEventListener('blur', leave);
  svg.addEventListener('keydown', function (e) {
    if (e.key == 'Escape') return leave();
    if (keys[e.key]) { keys[e.key](); e.preventDefault(); }
  });
}
document.querySelectorAll('svg.plot').forEach(function (svg) {
  var x0 = +svg.getAttribute('data-x0'), x1 = +svg.getAttribute('data-x1'), hair, tip, places = [], now = -1;
  var lines = [].map.call(svg.querySelectorAll('path[data-y]'), function (path) {
    return {path: path, name: path.getAttribute('data-name'), x: numbers(path, 'data-x'), y: numbers(path, 'data-y')};
  });
  lines.forEach(function (l) { l.x.forEach(function (v, i) { if (!isNaN(l.y[i]) && places.indexOf(v) < 0) places.push(v); }); });
  places.sort(function (a, b) { return a - b; });
  function leave() { if (tip) { hair.remove(); tip.remove(); tip = null; } }
  function show(at) {
    if (!tip) {
      hair = svg.appendChild(document.createElementNS(svg.namespaceURI, 'path'));
      hair.setAttribute('class', 'hair');
      tip = box(svg);
      tip.setAttribute('role', 'status');
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
  }
  function go(to) {
    if (!places.length) return;
    now = Math.max(0, Math.min(places.length - 1, to));
    show(places[now]);
  }
  reachable(svg, {ArrowRight: function () { go(now + 1); }, ArrowLeft: function () { go(now - 1); },
    Home: function () { go(0); }, End: function () { go(places.length - 1); }}, leave);
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('pointermove', function (e) {
    var r = svg.getBoundingClientRect(), x = x0 + ((e.clientX - r.left) / r.width * 520 - 56) / 452 * (x1 - x0), best = -1;
    places.forEach(function (v, i) { if (best < 0 || Math.abs(v - x) < Math.abs(places[best] - x)) best = i; });
    if (best < 0) return leave();
    go(best);
  });
});

/* ----- maps: 400 x 400 (svg_dots.c) ----- */

var sheet = document.getElementById('sheet');
if (sheet) document.querySelectorAll('svg.map').forEach(function (svg) {
  var dots = [], tip, picture, now = -1, side = +sheet.getAttribute('data-side'), columns = +sheet.getAttribute('data-columns');
  svg.querySelectorAll('path[data-i]').forEach(function (path) {
    var ids = path.getAttribute('data-i').split(',');
    path.getAttribute('d').split('M').slice(1).forEach(function (move, k) {
      var at = move.split(/[ h]/);
      dots.push({x: +at[0], y: +at[1], id: +ids[k], name: path.textContent});
    });
  });
  function leave() { if (tip) { tip.remove(); tip = null; } }
  function show(dot) {
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
  }
  function go(to) {
    if (!dots.length) return;
    now = Math.max(0, Math.min(dots.length - 1, to));
    show(dots[now]);
  }
  dots.sort(function (a, b) { return a.x - b.x || a.y - b.y; });
  reachable(svg, {ArrowRight: function () { go(now + 1); }, ArrowLeft: function () { go(now - 1); },
    Home: function () { go(0); }, End: function () { go(dots.length - 1); }}, leave);
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('pointermove', function (e) {
    var r = svg.getBoundingClientRect(), found = -1, best = 400;
    var x = (e.clientX - r.left) / r.width * 400, y = (e.clientY - r.top) / r.height * 400;
    dots.forEach(function (d, i) {
      var far = (d.x - x) * (d.x - x) + (d.y - y) * (d.y - y);
      if (far < best) { best = far; found = i; }
    });
    if (found < 0) return leave();
    go(found);
  });
});
document.querySelectorAll('svg[role=img]:not([tabindex])').forEach(function (svg) { svg.setAttribute('tabindex', '0'); });

/* Pictures that are enlarged show their pixels. */
addEventListener('load', function () {
  document.querySelectorAll('.pic img').forEach(function (img) {
    if (img.naturalWidth && img.naturalWidth < img.clientWidth) img.style.imageRendering = 'pixelated';
  });
});

/* ----- terms: explained under the pointer and the focus, where each first occurs in a section ----- */

var terms = {
  'false negatives': 'pairs of different samples that mean the same and are pushed apart all the same',
  'threshold': 'the similarity above which a pair is taken for a false negative; one for each anchor',
  'anchor': 'the sample whose similarities to all others are looked at',
  'precision': 'of the flagged pairs, the share that truly has the same label',
  'recall': 'of the pairs with the same label, the share that was flagged',
  'F1': 'harmonic mean of precision and recall',
  'FNC': 'false-negative cancellation: the threshold is a quantile of the batch',
  'GloFND': 'global false-negative discovery: a learned threshold for each sample, over the whole dataset',
  'SogCLR': 'a contrastive loss whose denominator is averaged over batches',
  'kNN': 'share of test images whose nearest training images have their class',
  't-SNE': 'a map in two dimensions that keeps near neighbours near',
  'MAE': 'mean absolute error',
  'quantile': 'the value that a given share of all values is below'
};
function explain(root) {
  var left = Object.keys(terms), walker, node, texts = [];
  walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while ((node = walker.nextNode()))
    if (node.parentNode.closest('p, figcaption, th, li, .tile span') &&
        !node.parentNode.closest('svg, abbr, code, a, script, style')) texts.push(node);
  texts.forEach(function (text) {
    left.slice().some(function (term) {
      var at = text.data.search(new RegExp('(^|[^A-Za-z-])' + term + '(?![A-Za-z-])')), mark, rest;
      if (at < 0) return false;
      if (text.data.substr(at, term.length) != term) at++;
      rest = text.splitText(at);
      rest.splitText(term.length);
      mark = document.createElement('abbr');
      mark.title = terms[term];
      mark.tabIndex = 0;
      mark.setAttribute('aria-label', term + ': ' + terms[term]);
      rest.parentNode.replaceChild(mark, rest);
      mark.appendChild(rest);
      left.splice(left.indexOf(term), 1);
      return true;
    });
  });
}
document.querySelectorAll('section, .intro').forEach(explain);
})();
