package grpc

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
)

// boxes is a method that answers with lists of google.protobuf.Any.
func boxes(t *testing.T) *Call {
	t.Helper()
	field := func(name string, n int32, label descriptorpb.FieldDescriptorProto_Label, of string) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Label: label.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: &of}
	}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
		{
			Name: new("box.proto"), Package: new("p"), Syntax: new("proto3"), Dependency: []string{"google/protobuf/any.proto"},
			MessageType: []*descriptorpb.DescriptorProto{{Name: new("Box"), Field: []*descriptorpb.FieldDescriptorProto{
				field("any", 1, descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, ".google.protobuf.Any"),
				field("list", 2, descriptorpb.FieldDescriptorProto_LABEL_REPEATED, ".p.Box"),
			}}},
			Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("S"), Method: []*descriptorpb.MethodDescriptorProto{
				{Name: new("M"), InputType: new(".p.Box"), OutputType: new(".p.Box")},
			}}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := Parse(set)
	if err != nil {
		t.Fatal(err)
	}
	c, err := all.Call("p.S/M")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// within is what so many Any have in one another.
func within(t *testing.T, n int) []byte {
	t.Helper()
	var b []byte
	for range n {
		var err error
		if b, err = proto.Marshal(&anypb.Any{TypeUrl: "x/google.protobuf.Any", Value: b}); err != nil {
			t.Fatal(err)
		}
	}
	return append(append([]byte{1<<3 | 2}, varint(len(b))...), b...)
}

func varint(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// TestHostileMessages: a message that is small, and would be much as JSON, is not made JSON.
func TestHostileMessages(t *testing.T) {
	c := boxes(t)
	if text, err := c.JSON(nil, within(t, 3)); err != nil || strings.Count(string(text), "@type") != 3 {
		t.Errorf("%s, %v", text, err)
	}
	var list []byte
	for range MaxMessages + 1 {
		list = append(list, 2<<3|2, 0)
	}
	var nested []byte
	for range maxDepth + 1 {
		nested = append(append([]byte{2<<3 | 2}, varint(len(nested))...), nested...)
	}
	if _, err := c.JSON(nil, nested); err == nil {
		t.Error("messages within messages have no bound")
	}
	for name, b := range map[string][]byte{"Any within Any": within(t, 2000), "many": list, "large": make([]byte, MaxMessage+1)} {
		if _, err := c.JSON(nil, b); !errors.Is(err, ErrLarge) {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}
