package grpc

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Bounds of a message that is made JSON. A few bytes of one can be very much JSON: an empty message
// has all its fields there, and what is within a google.protobuf.Any is copied for each that it is in.
const (
	MaxMessage  = 4 << 20 // bytes
	MaxMessages = 100_000 // within it
	maxDepth    = 1000    // messages within messages
	maxAny      = 16      // of google.protobuf.Any within each other
)

// ErrLarge says that a message is not made JSON, for it would be too much.
var ErrLarge = errors.New("the message is too large")

const anyName = "google.protobuf.Any"

// read reads a message of the target.
func (c *Call) read(b []byte, m proto.Message) error {
	return proto.UnmarshalOptions{AllowPartial: true, RecursionLimit: maxDepth, Resolver: c.types}.Unmarshal(b, m)
}

// measure goes through a message before it is made JSON.
type measure struct {
	c *Call
	n int // messages so far
}

// message is within so many of google.protobuf.Any.
func (x *measure) message(m protoreflect.Message, anys int) (err error) {
	if x.n++; x.n > MaxMessages {
		return fmt.Errorf("%w: it has more than %d messages within it", ErrLarge, MaxMessages)
	}
	if m.Descriptor().FullName() == anyName {
		return x.boxed(m, anys+1)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				err = x.message(v.Message(), anys)
				return err == nil
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := 0; err == nil && i < v.List().Len(); i++ {
				err = x.message(v.List().Get(i).Message(), anys)
			}
		default:
			err = x.message(v.Message(), anys)
		}
		return err == nil
	})
	return err
}

// boxed goes through what is within a google.protobuf.Any.
func (x *measure) boxed(m protoreflect.Message, anys int) error {
	if anys > maxAny {
		return fmt.Errorf("%w: it has more than %d of %s within each other", ErrLarge, maxAny, anyName)
	}
	fields := m.Descriptor().Fields()
	url, value := fields.ByName("type_url"), fields.ByName("value")
	if url == nil || value == nil || url.Kind() != protoreflect.StringKind || value.Kind() != protoreflect.BytesKind {
		return fmt.Errorf("the descriptors have another %s", anyName)
	}
	if !m.Has(url) {
		return nil
	}
	t, err := x.c.types.FindMessageByURL(m.Get(url).String())
	if err != nil {
		return fmt.Errorf("%s: %w", anyName, err)
	}
	inner := t.New()
	if err := x.c.read(m.Get(value).Bytes(), inner.Interface()); err != nil {
		return fmt.Errorf("%s: %w", anyName, err)
	}
	return x.message(inner, anys)
}
