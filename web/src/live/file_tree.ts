// Files and folders in memory, by their paths: "model/config.json", without a slash at either end; the root is "".

// A file that may grow.
export class Content {
  bytes: Uint8Array;
  size: number;
  constructor(bytes = new Uint8Array(0)) {
    this.bytes = bytes;
    this.size = bytes.length;
  }
  write(at: number, part: Uint8Array): void {
    const end = at + part.length;
    if (end > this.bytes.length) {
      const larger = new Uint8Array(Math.max(end, 2 * this.bytes.length));
      larger.set(this.bytes.subarray(0, this.size));
      this.bytes = larger;
    }
    this.bytes.set(part, at);
    this.size = Math.max(this.size, end);
  }
  resize(size: number): void {
    if (size > this.size) this.write(size - 1, new Uint8Array(1));
    this.size = size;
  }
}

export const clean = (path: string): string =>
  path
    .split("/")
    .filter((part) => part !== "" && part !== ".")
    .join("/");

// Whether a path is this one or below it.
const inside_of =
  (path: string) =>
  (name: string): boolean =>
    name === path || name.startsWith(`${path}/`);

export class FileTree {
  private readonly files = new Map<string, Content>();
  private readonly folders = new Set<string>([""]);

  put(path: string, bytes: Uint8Array): void {
    const name = clean(path);
    const parts = name.split("/");
    for (let i = 1; i < parts.length; ++i) this.folders.add(parts.slice(0, i).join("/"));
    this.files.set(name, new Content(bytes));
  }

  get(path: string): Uint8Array | null {
    const content = this.files.get(clean(path));
    return content ? content.bytes.slice(0, content.size) : null;
  }

  // A file, or a folder with all that it holds.
  remove(path: string): void {
    const inside = inside_of(clean(path));
    for (const name of [...this.files.keys()].filter(inside)) this.files.delete(name);
    for (const name of [...this.folders].filter(inside)) this.folders.delete(name);
  }

  // From here on paths are clean.
  content(path: string): Content | null {
    return this.files.get(path) ?? null;
  }

  create(path: string): Content {
    const content = new Content();
    this.files.set(path, content);
    return content;
  }

  exists(path: string): boolean {
    return this.files.has(path) || this.folders.has(path);
  }

  names_in(folder: string): string[] {
    const prefix = folder === "" ? "" : `${folder}/`;
    const all = [...this.files.keys(), ...this.folders].filter((path) => path !== folder && path.startsWith(prefix));
    return all.map((path) => path.slice(prefix.length)).filter((name) => name !== "" && !name.includes("/"));
  }

  add_folder(path: string): void {
    this.folders.add(path);
  }

  // Whether there was one.
  remove_folder(path: string): boolean {
    return this.folders.delete(path);
  }

  remove_file(path: string): boolean {
    return this.files.delete(path);
  }

  rename(from: string, to: string): void {
    const inside = inside_of(from);
    const moved = (name: string): string => to + name.slice(from.length);
    for (const name of [...this.folders].filter(inside)) {
      this.folders.delete(name);
      this.folders.add(moved(name));
    }
    for (const [name, content] of [...this.files].filter(([each]) => inside(each))) {
      this.files.delete(name);
      this.files.set(moved(name), content);
    }
  }
}
