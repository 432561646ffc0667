// How close texts are to a query: the cosine of their embeddings, by a model of sentence-transformers.
//
//     PKG_CONFIG_PATH=... cargo run FOLDER QUERY TEXT...
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int};
use std::ptr;

const QKV_OK: c_int = 0;
const QKV_EMBED: c_int = 0;
const QKV_STORE_F32: c_int = 0;

#[repr(C)]
struct QkvModel {
    _private: [u8; 0],
}

extern "C" {
    fn qkv_message() -> *const c_char;
    fn qkv_open(folder: *const c_char, task: c_int, storage: c_int, model: *mut *mut QkvModel) -> c_int;
    fn qkv_close(model: *mut QkvModel);
    fn qkv_dim(model: *const QkvModel, dim: *mut i64) -> c_int;
    fn qkv_embed(
        model: *const QkvModel, texts: *const *const c_char, count: i64, prompt: *const c_char, rows: *mut f32,
        capacity: i64,
    ) -> c_int;
}

fn checked(status: c_int) -> Result<(), String> {
    match status {
        QKV_OK => Ok(()),
        _ => Err(unsafe { CStr::from_ptr(qkv_message()) }.to_string_lossy().into_owned()),
    }
}

struct Embedder(*mut QkvModel);

// A model serves any number of threads.
unsafe impl Send for Embedder {}
unsafe impl Sync for Embedder {}

impl Embedder {
    fn open(folder: &str) -> Result<Self, String> {
        let name = CString::new(folder).map_err(|error| error.to_string())?;
        let mut model = ptr::null_mut();
        checked(unsafe { qkv_open(name.as_ptr(), QKV_EMBED, QKV_STORE_F32, &mut model) })?;
        Ok(Embedder(model))
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, String> {
        let own: Result<Vec<_>, _> = texts.iter().map(|text| CString::new(text.as_str())).collect();
        let own = own.map_err(|error| error.to_string())?;
        let addresses: Vec<_> = own.iter().map(|text| text.as_ptr()).collect();
        let mut dim = 0;
        checked(unsafe { qkv_dim(self.0, &mut dim) })?;
        let mut rows = vec![0f32; texts.len() * dim as usize];
        let (count, capacity) = (texts.len() as i64, rows.len() as i64);
        checked(unsafe { qkv_embed(self.0, addresses.as_ptr(), count, ptr::null(), rows.as_mut_ptr(), capacity) })?;
        Ok(rows.chunks(dim as usize).map(|row| row.to_vec()).collect())
    }
}

impl Drop for Embedder {
    fn drop(&mut self) {
        unsafe { qkv_close(self.0) }
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| -> f64 { x.iter().zip(y).map(|(x, y)| *x as f64 * *y as f64).sum() };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.len() < 3 {
        return Err("usage: nearest FOLDER QUERY TEXT...".into());
    }
    let texts = &arguments[1..];
    let rows = Embedder::open(&arguments[0])?.embed(texts)?;
    for (text, row) in texts.iter().zip(&rows).skip(1) {
        println!("{:.4} {text}", cosine(&rows[0], row));
    }
    Ok(())
}
