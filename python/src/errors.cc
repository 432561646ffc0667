// Exceptions of the library as exceptions of Python.
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "arguments.h"
#include "bindings.h"
#include "qkv/error.h"

namespace qkv::python {
namespace {

// OSError(number, message) becomes FileNotFoundError and its kin by itself.
void raise_os_error(int number, const char* message) {
  PyObject* arguments = number != 0 ? Py_BuildValue("(is)", number, message) : Py_BuildValue("(s)", message);
  if (arguments == nullptr) return;
  PyErr_SetObject(PyExc_OSError, arguments);
  Py_DECREF(arguments);
}

void set_python_error(const std::exception_ptr& thrown, void* format_error) {
  try {
    std::rethrow_exception(thrown);
  } catch (const TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const FormatError& error) {
    PyErr_SetString(static_cast<PyObject*>(format_error), error.what());
  } catch (const IoError& error) {
    raise_os_error(error.error_number, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    raise_os_error(error.code().value(), error.what());
  } catch (const std::system_error& error) {
    raise_os_error(error.code().value(), error.what());
  } catch (const Stopped& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (const std::length_error&) {
    PyErr_SetString(PyExc_MemoryError, "not enough memory for arrays of these sizes");
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  PyObject* format_error = PyErr_NewExceptionWithDoc(
      "qkv.FormatError",
      "A file or text breaks a rule of its format; the message names the file, the field and the rule.",
      PyExc_ValueError, nullptr);
  if (format_error == nullptr) throw nb::python_error();
  module.attr("FormatError") = nb::borrow(format_error);
  nb::register_exception_translator(set_python_error, format_error);  // the reference stays with it
}

}  // namespace qkv::python
