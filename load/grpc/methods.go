package grpc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// MaxFiles bounds the .proto files that a set of descriptors is of.
const MaxFiles = 2000

// maxNamed bounds the methods that an error lists.
const maxNamed = 8

// Methods are those of the services of a set of descriptors.
type Methods struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

// Parse reads a google.protobuf.FileDescriptorSet, as protoc and buf write them.
func Parse(set []byte) (*Methods, error) {
	var all descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &all); err != nil {
		return nil, fmt.Errorf("is no set of descriptors: %w", err)
	}
	if n := len(all.GetFile()); n == 0 || n > MaxFiles {
		return nil, fmt.Errorf("is of %d files, want 1 to %d", n, MaxFiles)
	}
	files, err := protodesc.NewFiles(&all)
	if err != nil {
		return nil, fmt.Errorf("is no whole set of descriptors (protoc writes one with --include_imports): %w", err)
	}
	return &Methods{files, dynamicpb.NewTypes(files)}, nil
}

// Call is a method that can be called.
type Call struct {
	in, out protoreflect.MessageDescriptor
	types   *dynamicpb.Types
}

// Call finds a method by its name, as "package.Service/Method".
func (m *Methods) Call(name string) (*Call, error) {
	service, method, _ := strings.Cut(name, "/")
	d, err := m.files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil && !errors.Is(err, protoregistry.NotFound) {
		return nil, fmt.Errorf("look for %s: %w", service, err)
	}
	if s, ok := d.(protoreflect.ServiceDescriptor); ok {
		if md := s.Methods().ByName(protoreflect.Name(method)); md != nil {
			if md.IsStreamingClient() {
				return nil, fmt.Errorf("%s takes a stream of messages, a step sends one", name)
			}
			return &Call{md.Input(), md.Output(), m.types}, nil
		}
	}
	return nil, fmt.Errorf("the descriptors have no method %s, they have %s", name, m.names())
}

// names lists methods.
func (m *Methods) names() string {
	var out []string
	for f := range m.files.RangeFiles {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				out = append(out, string(s.FullName())+"/"+string(s.Methods().Get(j).Name()))
			}
		}
	}
	slices.Sort(out)
	if n := len(out); n > maxNamed {
		out = append(out[:maxNamed], fmt.Sprintf("%d others", n-maxNamed))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// Append appends the message that a text of JSON says, as it is sent; an empty text is a message
// without anything in it.
func (c *Call) Append(dst, text []byte) ([]byte, error) {
	m := dynamicpb.NewMessage(c.in)
	if len(text) > 0 {
		if err := (protojson.UnmarshalOptions{Resolver: c.types}).Unmarshal(text, m); err != nil {
			return dst, fmt.Errorf("no %s: %s", c.in.FullName(), strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0"))
		}
	}
	begin := len(dst)
	dst, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(dst, 0, 0, 0, 0, 0), m)
	if err != nil {
		return dst[:begin], fmt.Errorf("%s: %w", c.in.FullName(), err)
	}
	return head(dst, begin), nil
}

// JSON appends a message that came, with its fields that are empty; ErrLarge: it is not taken.
func (c *Call) JSON(dst, message []byte) ([]byte, error) {
	if len(message) > MaxMessage {
		return dst, fmt.Errorf("%w: it has %d bytes, at most %d are taken", ErrLarge, len(message), MaxMessage)
	}
	m := dynamicpb.NewMessage(c.out)
	if err := c.read(message, m); err != nil {
		return dst, fmt.Errorf("what came is no %s: %w", c.out.FullName(), err)
	}
	if err := (&measure{c: c}).message(m, 0); err != nil {
		return dst, err
	}
	out, err := protojson.MarshalOptions{Resolver: c.types, EmitUnpopulated: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst, fmt.Errorf("%s: %w", c.out.FullName(), err)
	}
	return out, nil
}
