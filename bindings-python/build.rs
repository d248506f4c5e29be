//! Tells the binding which interpreter it is built for: `Py_GIL_DISABLED`, in particular.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
