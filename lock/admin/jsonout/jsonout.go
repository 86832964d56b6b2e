// Package jsonout encodes the JSON that tools print and serve. A list without elements is [] and a
// map without elements {}: programs that read them need not expect null.
//
// The API of this package is not part of the compatibility promise in README.md: it may change in any
// release.
package jsonout

import (
	"encoding"
	"encoding/json"
	"io"
	"reflect"
)

// Line writes v as one line of JSON. With escape it escapes <, > and &, for answers over HTTP.
func Line(w io.Writer, v any, escape bool) error { return encode(w, v, "", escape) }

// Document writes v as indented JSON, for people and files.
func Document(w io.Writer, v any) error { return encode(w, v, "  ", false) }

func encode(w io.Writer, v any, indent string, escape bool) error {
	e := json.NewEncoder(w)
	e.SetIndent("", indent)
	e.SetEscapeHTML(escape)
	return e.Encode(Filled(v))
}

// Filled returns a deep copy of v in which each nil slice and map is an empty one. Values that encode
// themselves, and unexported fields, stay as they are.
func Filled(v any) any {
	if v == nil {
		return nil
	}
	return filled(reflect.ValueOf(v)).Interface()
}

func filled(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	fill(c)
	return c
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// fill replaces what v refers to by filled copies. v can be set.
func fill(v reflect.Value) {
	if t := v.Type(); t.Kind() != reflect.Interface && (t.Implements(marshaler) || t.Implements(textMarshaler)) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			fill(c.Elem())
			v.Set(c)
		}
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(filled(v.Elem()))
		}
	case reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			fill(c.Index(i))
		}
		v.Set(c)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for each := v.MapRange(); each.Next(); {
			c.SetMapIndex(each.Key(), filled(each.Value()))
		}
		v.Set(c)
	}
}
