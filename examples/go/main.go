// Translates the lines of standard input, all at once.
//
//	echo "You are welcome" | PKG_CONFIG_PATH=... go run . FOLDER
package main

/*
#cgo pkg-config: qkv
#include <qkv/qkv.h>
#include <stdlib.h>
*/
import "C"

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// failed calls qkv and returns its message, which is that of the system's thread: the goroutine must not leave it.
func failed(call func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if call() == C.QKV_OK {
		return nil
	}
	return errors.New(C.GoString(C.qkv_message()))
}

func translate(folder string, lines []string) ([]string, error) {
	name := C.CString(folder)
	defer C.free(unsafe.Pointer(name))
	var model *C.qkv_model
	if err := failed(func() C.int { return C.qkv_open(name, C.QKV_TRANSLATE, C.QKV_STORE_F32, &model) }); err != nil {
		return nil, err
	}
	defer C.qkv_close(model)

	count := len(lines)
	place := C.malloc(C.size_t(count+1) * C.size_t(unsafe.Sizeof(uintptr(0))))
	defer C.free(place)
	texts := unsafe.Slice((**C.char)(place), count)
	for i, line := range lines {
		texts[i] = C.CString(line)
		defer C.free(unsafe.Pointer(texts[i]))
	}
	var found **C.char
	err := failed(func() C.int { return C.qkv_translate(model, (**C.char)(place), C.int64_t(count), 0, 0, &found) })
	if err != nil {
		return nil, err
	}
	defer C.qkv_free(unsafe.Pointer(found))
	result := make([]string, count)
	for i, text := range unsafe.Slice(found, count) {
		result[i] = C.GoString(text)
	}
	return result, nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: translate FOLDER")
		os.Exit(2)
	}
	var lines []string
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		lines = append(lines, input.Text())
	}
	translations, err := translate(os.Args[1], lines)
	if err != nil {
		fmt.Fprintln(os.Stderr, "translate:", err)
		os.Exit(1)
	}
	for _, text := range translations {
		fmt.Println(text)
	}
}
