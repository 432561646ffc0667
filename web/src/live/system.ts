// The operating system of the engine: what a WASI module asks for (wasi_snapshot_preview1), over files in memory.
import { clean, type Content, FileTree } from "./file_tree";

const kSuccess = 0;
const kBadDescriptor = 8;
const kExists = 20;
const kInvalid = 28;
const kNoEntry = 44;
const kNoFunction = 52;
const kNoFolder = 54;
const kNotEmpty = 55;
const kRoot = 3; // the descriptor of "/"
const kFolder = 3; // kinds of files
const kFile = 4;
const kTerminal = 2;
const kCreate = 1; // flags of path_open
const kOnlyFolder = 2;
const kExclusive = 4;
const kTruncate = 8;
const kAppend = 1;

// The module ended the program.
export class Exit extends Error {
  constructor(readonly code: number) {
    super(`exit ${code}`);
  }
}

interface Open {
  path: string;
  content: Content | null; // null: a folder
  at: number;
  append: boolean;
  names: string[]; // in the folder, when it was read
}

export class System {
  memory: WebAssembly.Memory | null = null;
  readonly files = new FileTree();
  private readonly open = new Map<number, Open>();

  // `write` is given what the program writes to standard output (1) and error (2).
  constructor(private readonly write: (descriptor: number, part: Uint8Array) => void) {
    this.open.set(kRoot, { path: "", content: null, at: 0, append: false, names: [] });
  }

  private view(): DataView {
    return new DataView((this.memory as WebAssembly.Memory).buffer);
  }
  private bytes(at: number, size: number): Uint8Array {
    return new Uint8Array((this.memory as WebAssembly.Memory).buffer, at, size);
  }
  private path_of(folder: number, at: number, size: number): string {
    const name = new TextDecoder().decode(this.bytes(at, size).slice());
    return clean(`${this.open.get(folder)?.path ?? ""}/${name}`);
  }
  // Calls `use` with each of the buffers that a read or write lists; returns how many bytes it moved.
  private each(list: number, count: number, use: (buffer: Uint8Array) => number): number {
    let moved = 0;
    for (let i = 0; i < count; ++i) {
      const at = this.view().getUint32(list + 8 * i, true);
      const size = this.view().getUint32(list + 8 * i + 4, true);
      const part = use(this.bytes(at, size));
      moved += part;
      if (part < size) break;
    }
    return moved;
  }
  private put_status(at: number, kind: number, size: number): void {
    const view = this.view();
    for (let i = 0; i < 64; ++i) view.setUint8(at + i, 0);
    view.setUint8(at + 16, kind);
    view.setBigUint64(at + 24, 1n, true);
    view.setBigUint64(at + 32, BigInt(size), true);
  }
  private read(file: Open, list: number, count: number, from: number): number {
    let at = from;
    return this.each(list, count, (buffer) => {
      const content = file.content as Content;
      const part = content.bytes.subarray(at, Math.min(content.size, at + buffer.length));
      buffer.set(part);
      at += part.length;
      return part.length;
    });
  }

  // What the module imports; anything else answers "no such function".
  imports(module: WebAssembly.Module): WebAssembly.Imports {
    const calls = this.calls();
    const wasi: Record<string, WebAssembly.ImportValue> = {};
    for (const { name } of WebAssembly.Module.imports(module)) wasi[name] = calls[name] ?? (() => kNoFunction);
    return { wasi_snapshot_preview1: wasi };
  }

  private calls(): Record<string, (...given: never[]) => number> {
    const nothing = (count: number, size: number): number => {
      this.view().setUint32(count, 0, true);
      this.view().setUint32(size, 0, true);
      return kSuccess;
    };
    const with_file = (descriptor: number, use: (file: Open) => number): number => {
      const file = this.open.get(descriptor);
      return file ? use(file) : kBadDescriptor;
    };
    return {
      args_sizes_get: nothing,
      environ_sizes_get: nothing,
      args_get: () => kSuccess,
      environ_get: () => kSuccess,
      sched_yield: () => kSuccess,
      clock_time_get: (_id: number, _precision: bigint, at: number) => {
        this.view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
        return kSuccess;
      },
      random_get: (at: number, size: number) => {
        for (let i = 0; i < size; i += 65536) crypto.getRandomValues(this.bytes(at + i, Math.min(65536, size - i)));
        return kSuccess;
      },
      proc_exit: (code: number) => {
        throw new Exit(code);
      },
      fd_prestat_get: (descriptor: number, at: number) => {
        if (descriptor !== kRoot) return kBadDescriptor;
        this.view().setUint32(at, 0, true);
        this.view().setUint32(at + 4, 1, true);
        return kSuccess;
      },
      fd_prestat_dir_name: (_descriptor: number, at: number) => {
        this.bytes(at, 1)[0] = 47;
        return kSuccess;
      },
      fd_fdstat_get: (descriptor: number, at: number) => {
        const file = this.open.get(descriptor);
        if (!file && descriptor > 2) return kBadDescriptor;
        const view = this.view();
        for (let i = 0; i < 24; ++i) view.setUint8(at + i, 0);
        view.setUint8(at, !file ? kTerminal : file.content ? kFile : kFolder);
        view.setBigUint64(at + 8, (1n << 30n) - 1n, true); // rights: all
        view.setBigUint64(at + 16, (1n << 30n) - 1n, true);
        return kSuccess;
      },
      fd_fdstat_set_flags: () => kSuccess,
      fd_sync: () => kSuccess,
      fd_datasync: () => kSuccess,
      fd_close: (descriptor: number) => (this.open.delete(descriptor) ? kSuccess : kBadDescriptor),
      fd_filestat_get: (descriptor: number, at: number) =>
        with_file(descriptor, (file) => {
          this.put_status(at, file.content ? kFile : kFolder, file.content?.size ?? 0);
          return kSuccess;
        }),
      fd_filestat_set_size: (descriptor: number, size: bigint) =>
        with_file(descriptor, (file) => {
          file.content?.resize(Number(size));
          return kSuccess;
        }),
      fd_seek: (descriptor: number, by: bigint, whence: number, at: number) =>
        with_file(descriptor, (file) => {
          const base = whence === 0 ? 0 : whence === 1 ? file.at : (file.content?.size ?? 0);
          if (base + Number(by) < 0) return kInvalid;
          file.at = base + Number(by);
          this.view().setBigUint64(at, BigInt(file.at), true);
          return kSuccess;
        }),
      fd_read: (descriptor: number, list: number, count: number, moved: number) => {
        const file = this.open.get(descriptor);
        const size = file?.content ? this.read(file, list, count, file.at) : 0;
        if (file) file.at += size;
        this.view().setUint32(moved, size, true);
        return kSuccess;
      },
      fd_pread: (descriptor: number, list: number, count: number, from: bigint, moved: number) =>
        with_file(descriptor, (file) => {
          this.view().setUint32(moved, this.read(file, list, count, Number(from)), true);
          return kSuccess;
        }),
      fd_write: (descriptor: number, list: number, count: number, moved: number) => {
        const file = this.open.get(descriptor);
        if (!file && descriptor > 2) return kBadDescriptor;
        const size = this.each(list, count, (buffer) => {
          if (!file?.content) this.write(descriptor, buffer.slice());
          else {
            if (file.append) file.at = file.content.size;
            file.content.write(file.at, buffer);
            file.at += buffer.length;
          }
          return buffer.length;
        });
        this.view().setUint32(moved, size, true);
        return kSuccess;
      },
      fd_readdir: (descriptor: number, at: number, size: number, cookie: bigint, used: number) =>
        with_file(descriptor, (file) => {
          if (cookie === 0n) file.names = this.files.names_in(file.path); // stay in their order while some are removed
          const parts = file.names.map((name, i) => {
            const text = new TextEncoder().encode(name);
            const entry = new Uint8Array(24 + text.length);
            const view = new DataView(entry.buffer);
            view.setBigUint64(0, BigInt(i + 1), true);
            view.setUint32(16, text.length, true);
            view.setUint8(20, this.files.content(clean(`${file.path}/${name}`)) ? kFile : kFolder);
            entry.set(text, 24);
            return entry;
          });
          let end = 0;
          for (const part of parts.slice(Number(cookie))) {
            const fits = part.subarray(0, size - end);
            this.bytes(at + end, fits.length).set(fits);
            end += fits.length;
          }
          this.view().setUint32(used, end, true);
          return kSuccess;
        }),
      path_open: (
        folder: number,
        _follow: number,
        at: number,
        size: number,
        how: number,
        _rights: bigint,
        _inherited: bigint,
        flags: number,
        descriptor: number,
      ) => {
        const path = this.path_of(folder, at, size);
        let content = this.files.content(path);
        if (this.files.exists(path)) {
          if (how & kExclusive) return kExists;
          if (how & kOnlyFolder && content) return kNoFolder;
        } else {
          if (!(how & kCreate)) return kNoEntry;
          content = this.files.create(path);
        }
        if (how & kTruncate) content?.resize(0);
        let free = kRoot + 1;
        while (this.open.has(free)) ++free;
        this.open.set(free, { path, content, at: 0, append: (flags & kAppend) !== 0, names: [] });
        this.view().setUint32(descriptor, free, true);
        return kSuccess;
      },
      path_filestat_get: (folder: number, _follow: number, at: number, size: number, status: number) => {
        const path = this.path_of(folder, at, size);
        if (!this.files.exists(path)) return kNoEntry;
        const content = this.files.content(path);
        this.put_status(status, content ? kFile : kFolder, content?.size ?? 0);
        return kSuccess;
      },
      path_create_directory: (folder: number, at: number, size: number) => {
        const path = this.path_of(folder, at, size);
        if (this.files.exists(path)) return kExists;
        this.files.add_folder(path);
        return kSuccess;
      },
      path_remove_directory: (folder: number, at: number, size: number) => {
        const path = this.path_of(folder, at, size);
        if (this.files.content(path)) return kNoFolder;
        if (this.files.names_in(path).length > 0) return kNotEmpty;
        return this.files.remove_folder(path) ? kSuccess : kNoEntry;
      },
      path_readlink: (folder: number, at: number, size: number) =>
        this.files.exists(this.path_of(folder, at, size)) ? kInvalid : kNoEntry, // there are no links
      path_unlink_file: (folder: number, at: number, size: number) =>
        this.files.remove_file(this.path_of(folder, at, size)) ? kSuccess : kNoEntry,
      path_rename: (from: number, at: number, size: number, to: number, to_at: number, to_size: number) => {
        const old = this.path_of(from, at, size),
          path = this.path_of(to, to_at, to_size);
        if (!this.files.exists(old)) return kNoEntry;
        this.files.rename(old, path);
        return kSuccess;
      },
    };
  }
}
