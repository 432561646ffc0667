// Files that the reader drops onto the page or chooses: arrays for the steps, or the folder of a model.
import { given_names } from "./setup";

const kArrays = /\.(npy|csv|json)$/i;
const kOfModel = /\.(json|safetensors)$/i;

async function bytes_of(file: File): Promise<Uint8Array> {
  return new Uint8Array(await file.arrayBuffer());
}

const entries_in = (folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> => {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  return new Promise((done, failed) => {
    const more = (): void =>
      reader.readEntries((some) => {
        if (some.length === 0) return done(all);
        all.push(...some);
        more();
      }, failed);
    more();
  });
};

// The files that were dropped, those of folders without their folders.
export async function dropped_files(data: DataTransfer): Promise<File[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry());
  const plain = [...data.files];
  const folders = entries.filter((entry) => entry?.isDirectory) as FileSystemDirectoryEntry[];
  if (folders.length === 0) return plain;
  const files_of = async (folder: FileSystemDirectoryEntry): Promise<File[]> =>
    Promise.all(
      ((await entries_in(folder)).filter((entry) => entry.isFile) as FileSystemFileEntry[]).map(async (entry) => {
        const file = await new Promise<File>((done, failed) => entry.file(done, failed));
        dropped_from.set(file, folder.name);
        return file;
      }),
    );
  return (await Promise.all(folders.map(files_of))).flat();
}

const dropped_from = new WeakMap<File, string>();

// The name of the folder that files came in.
export const folder_of = ([file]: readonly File[]): string =>
  (file && (dropped_from.get(file) ?? file.webkitRelativePath.split("/")[0])) || "model";

const depth_of = (file: File): number => file.webkitRelativePath.split("/").length;

// The names of the models' folders, which have a config.json; a part of a model may have one, too, further inside.
export function models_in(files: readonly File[]): string[] {
  const configs = files.filter((file) => file.name === "config.json");
  const least = Math.min(...configs.map(depth_of));
  return configs.filter((file) => depth_of(file) === least).map((file) => folder_of([file]));
}

// Those of a model, by the paths that the engine reads them from.
export async function model_in(files: readonly File[], folder: string): Promise<Map<string, Uint8Array>> {
  const of_model = files.filter((file) => kOfModel.test(file.name));
  return new Map(
    await Promise.all(of_model.map(async (file) => [`${folder}/${file.name}`, await bytes_of(file)] as const)),
  );
}

export interface Arrays {
  given: Map<string, string>; // tensor -> path
  contents: Map<string, Uint8Array>; // path -> bytes
  fault: string; // the first file that is none of these
}

// Arrays by what their names say: w_query.npy, inputs.csv, mask.json. They are to lie in this folder.
export async function arrays_in(files: readonly File[], folder: string): Promise<Arrays> {
  const arrays: Arrays = { given: new Map(), contents: new Map(), fault: "" };
  for (const file of files) {
    const stem = file.name.replace(/\.\w+$/, "").replaceAll("-", "_").toLowerCase();
    const name = stem === "input" ? "inputs" : stem;
    if (!kArrays.test(file.name) || !given_names.includes(name)) {
      arrays.fault ||= `"${file.name}" is no array of this page: it must be a .npy, .csv or .json file named ${given_names.join(", ")}; a model is dropped as its folder, with config.json.`;
      continue;
    }
    const path = `${folder}/${file.name}`;
    arrays.given.set(name, path);
    arrays.contents.set(path, await bytes_of(file));
  }
  return arrays;
}
