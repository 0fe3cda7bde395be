// A small virtual DOM: views return descriptions of nodes, and `render` changes only what differs from the last ones.
// So focus, scroll positions, selections, opened rows and typed text survive every refresh. All text becomes text
// nodes; nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * The description of an element. Attributes: `key` tells it from its siblings; `onclick` and the like are functions;
 * `style` is an object of CSS properties; `created` is called with the new element; true is an empty attribute; false,
 * null and undefined are none. Children: descriptions, text, numbers, arrays of those; null and false hold a place.
 */
export function h(tag, attributes, ...children) {
  const { key, ...rest } = attributes ?? {};
  return { tag, key, attributes: rest, children: flat(children, []) };
}

/** Shows the description as the only content of the container. */
export function render(container, description) {
  const before = container.shown ?? [];
  if (!container.shown) container.replaceChildren();
  container.shown = flat([description], []);
  patchChildren(container, before, container.shown, false);
}

function flat(children, into) {
  for (const child of children) {
    if (Array.isArray(child)) flat(child, into);
    else if (child === null || child === undefined || child === false) into.push({ text: "" });
    else if (typeof child === "object") into.push(child);
    else into.push({ text: String(child) });
  }
  return into;
}

function patchChildren(parent, before, after, isSvg) {
  const keyed = new Map();
  const unkeyed = [];
  for (const old of before) {
    if (old.key === undefined) unkeyed.push(old);
    else keyed.set(old.key, old);
  }
  const kept = new Set();
  let next = 0;
  for (const item of after) {
    const old = item.key === undefined ? unkeyed[next++] : keyed.get(item.key);
    if (old && old.tag === item.tag && !kept.has(old)) {
      kept.add(old);
      patch(old, item, isSvg);
    } else {
      create(item, isSvg);
    }
  }
  for (const old of before) if (!kept.has(old)) old.node.remove();
  let cursor = parent.firstChild;
  for (const item of after) {
    if (item.node === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(item.node, cursor);
  }
}

function patch(old, item, isSvg) {
  item.node = old.node;
  if (item.tag === undefined) {
    if (old.text !== item.text) item.node.nodeValue = item.text;
    return;
  }
  const svg = isSvg || item.tag === "svg";
  setAttributes(item.node, old.attributes, item.attributes);
  patchChildren(item.node, old.children, item.children, svg);
}

function create(item, isSvg) {
  if (item.tag === undefined) {
    item.node = document.createTextNode(item.text);
    return;
  }
  const svg = isSvg || item.tag === "svg";
  item.node = svg ? document.createElementNS(SVG, item.tag) : document.createElement(item.tag);
  setAttributes(item.node, {}, item.attributes);
  for (const child of item.children) {
    create(child, svg);
    item.node.append(child.node);
  }
  item.attributes.created?.(item.node);
}

function setAttributes(node, before, after) {
  for (const name of Object.keys(before)) if (!(name in after)) setAttribute(node, name, before[name], null);
  for (const [name, value] of Object.entries(after)) setAttribute(node, name, before[name], value);
}

function setAttribute(node, name, before, value) {
  if (name === "created") return;
  if (name === "style") return setStyle(node, before ?? {}, value ?? {});
  if (before === value) return;
  if (name.startsWith("on")) node[name] = value ?? null;
  else if (name === "value" || name === "checked") node[name] = value ?? "";
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

// Through the object model, which a content security policy allows; as an attribute it would be refused.
function setStyle(node, before, after) {
  for (const name of Object.keys(before)) if (!(name in after)) node.style.removeProperty(name);
  for (const [name, value] of Object.entries(after)) if (before[name] !== value) node.style.setProperty(name, value);
}
