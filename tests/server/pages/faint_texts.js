// The texts of a page that stand out less than 4.5 times from what is behind them.
(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => top.slice(0, 3).map((each, at) => each * top[3] + under[at] * (1 - top[3]));
  const behind = element => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const light = colour => {
    const [r, g, b] = colour.map(each => (each / 255 <= 0.03928 ? each / 255 / 12.92 : ((each / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(each => each.nodeType === 3 && each.textContent.trim());
    const drawn = element.closest("svg");
    if (!own || element.closest("title, noscript, option, datalist") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    let ground = behind(drawn ?? element);
    if (drawn) {
      const box = element.closest(".box")?.querySelector("rect");
      if (box && !element.matches(".more")) ground = over(rgba(getComputedStyle(box).fill), ground);
    }
    const text = over(rgba(drawn ? style.fill : style.color), ground);
    const [high, low] = [light(text), light(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.add(`${element.tagName}.${element.getAttribute("class")} ${ratio.toFixed(2)} ${element.textContent.trim().slice(0, 20)}`);
  }
  return [...found];
})()
