package api

import "reflect"

// Complete fills zero headers of a body and turns nil lists and maps into empty ones:
// the API promises both.
func Complete(body any, h Header) any {
	v := reflect.New(reflect.TypeOf(body)).Elem()
	v.Set(reflect.ValueOf(body))
	completeValue(v, h)
	return v.Interface()
}

func completeValue(v reflect.Value, h Header) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Header]() {
			if v.IsZero() {
				v.Set(reflect.ValueOf(h))
			}
			return
		}
		for _, f := range v.Fields() {
			if f.CanSet() {
				completeValue(f, h)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // bytes are a text
		}
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			return
		}
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Slice {
			return
		}
		// The backend may share the list: work on a copy.
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		for i := range list.Len() {
			completeValue(list.Index(i), h)
		}
		v.Set(list)
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	}
}
