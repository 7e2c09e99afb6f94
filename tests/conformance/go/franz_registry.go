package main

// franz-go's client of schema registries, and the framing of its Serde.

import (
	"context"

	"github.com/twmb/franz-go/pkg/sr"
)

// Framing is a schema, and a value with it: Payload without its frame, Data with it.
type Framing struct {
	URL     string `json:"url"`
	Subject string `json:"subject"`
	Schema  string `json:"schema"`
	Kind    string `json:"kind"`
	Payload []byte `json:"payload"`
	Data    []byte `json:"data"`
	Index   []int  `json:"index"`
}

// franzFrame registers the schema and puts its frame before the payload.
func franzFrame(a Args) (Answer, error) {
	client, err := sr.NewClient(sr.URLs(a.Framing.URL))
	if err != nil {
		return nil, err
	}
	var kind sr.SchemaType
	if err := kind.UnmarshalText([]byte(a.Framing.Kind)); err != nil {
		return nil, err
	}
	made, err := client.CreateSchema(context.Background(), a.Framing.Subject, sr.Schema{Schema: a.Framing.Schema, Type: kind})
	if err != nil {
		return nil, err
	}
	serde := sr.NewSerde(sr.EncodeFn(func(v any) ([]byte, error) { return v.([]byte), nil }))
	options := []sr.EncodingOpt{}
	if len(a.Framing.Index) > 0 {
		options = append(options, sr.Index(a.Framing.Index...))
	}
	serde.Register(made.ID, []byte{}, options...)
	data, err := serde.Encode(a.Framing.Payload)
	return Answer{"id": made.ID, "data": data}, err
}

// franzUnframe finds the schema of a value and takes its frame off.
func franzUnframe(a Args) (Answer, error) {
	client, err := sr.NewClient(sr.URLs(a.Framing.URL))
	if err != nil {
		return nil, err
	}
	serde := sr.NewSerde()
	id, rest, err := serde.DecodeID(a.Framing.Data)
	if err != nil {
		return nil, err
	}
	schema, err := client.SchemaByID(context.Background(), id)
	if err != nil {
		return nil, err
	}
	index := []int{}
	if schema.Type == sr.TypeProtobuf {
		if index, rest, err = serde.DecodeIndex(rest, 100); err != nil {
			return nil, err
		}
	}
	return Answer{"id": id, "payload": rest, "index": index, "kind": schema.Type.String()}, nil
}
