module coreflume/interop/contract

go 1.26.0
