package template

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/skein-project/skein/cluster/flow"
)

// Typed checks that a value is of a parameter's type.
func Typed(typ string, v any) (any, error) {
	ok := false
	switch typ {
	case flow.TypeText:
		_, ok = v.(string)
	case flow.TypeBool:
		_, ok = v.(bool)
	case flow.TypeList:
		_, ok = v.([]any)
	case flow.TypeInt:
		if n, is := v.(json.Number); is {
			_, err := n.Int64()
			ok = err == nil
		}
	case flow.TypeFloat:
		if n, is := v.(json.Number); is {
			f, err := n.Float64()
			ok = err == nil && !math.IsInf(f, 0)
		}
	default:
		return nil, fmt.Errorf("unknown type %.32q, have: text, int, float, bool, list", typ)
	}
	if !ok {
		return nil, fmt.Errorf("%.64s is not of type %s", Show(v), typ)
	}
	return v, nil
}

// Show is a value in words.
func Show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
