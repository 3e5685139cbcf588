#include "checkpoint/interchange/tensor_type.hpp"

#include <algorithm>
#include <array>

namespace trainyard::checkpoint {
namespace {

constexpr std::array dtypes = {Dtype{"F64", 8, "F64", "float64", "DoubleStorage"},
                               Dtype{"F32", 4, "F32", "float32", "FloatStorage"},
                               Dtype{"F16", 2, "F16", "float16", "HalfStorage"},
                               Dtype{"BF16", 2, "BF16", "bfloat16", "BFloat16Storage"},
                               Dtype{"F8_E5M2", 1, "F8_E5M2", "float8_e5m2", ""},
                               Dtype{"F8_E4M3", 1, "F8_E4M3", "float8_e4m3fn", ""},
                               Dtype{"I64", 8, "I64", "int64", "LongStorage"},
                               Dtype{"I32", 4, "I32", "int32", "IntStorage"},
                               Dtype{"I16", 2, "I16", "int16", "ShortStorage"},
                               Dtype{"I8", 1, "I8", "int8", "CharStorage"},
                               Dtype{"U64", 8, "U64", "uint64", ""},
                               Dtype{"U32", 4, "U32", "uint32", ""},
                               Dtype{"U16", 2, "U16", "uint16", ""},
                               Dtype{"U8", 1, "U8", "uint8", "ByteStorage"},
                               Dtype{"BOOL", 1, "BOOL", "bool", "BoolStorage"},
                               Dtype{"ComplexHalf", 4, "", "complex32", ""},
                               Dtype{"ComplexFloat", 8, "C64", "complex64", "ComplexFloatStorage"},
                               Dtype{"ComplexDouble", 16, "", "complex128", "ComplexDoubleStorage"},
                               Dtype{"Float8_e5m2fnuz", 1, "F8_E5M2FNUZ", "float8_e5m2fnuz", ""},
                               Dtype{"Float8_e4m3fnuz", 1, "F8_E4M3FNUZ", "float8_e4m3fnuz", ""},
                               Dtype{"Float8_e8m0fnu", 1, "F8_E8M0", "float8_e8m0fnu", ""}};

std::optional<Dtype> find_by(std::string_view Dtype::*field, std::string_view name) {
  const auto* found =
      std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& known) { return known.*field == name; });
  // A type that a format lacks has an empty name in that format.
  return found == dtypes.end() || name.empty() ? std::nullopt : std::optional{*found};
}

}  // namespace

std::optional<Dtype> find_dtype(std::string_view name) {
  return find_by(&Dtype::name, name);
}

std::optional<Dtype> find_safetensors_dtype(std::string_view name) {
  return find_by(&Dtype::safetensors, name);
}

std::optional<Dtype> find_torch_dtype(std::string_view name) {
  return find_by(&Dtype::torch, name);
}

std::optional<Dtype> find_storage_dtype(std::string_view name) {
  return find_by(&Dtype::storage, name);
}

}  // namespace trainyard::checkpoint
